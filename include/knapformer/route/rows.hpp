// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <knapformer/comm/bfloat16.hpp>
#include <knapformer/comm/device.hpp>
#include <type_traits>

namespace knapformer {

/// What a view is made of, as far as routing cares: it sums elements of these types.
enum class Element { kOther, kFloat, kDouble, kBfloat16 };

template <class T>
inline constexpr Element element_of =
    std::is_same_v<std::remove_const_t<T>, float>      ? Element::kFloat
    : std::is_same_v<std::remove_const_t<T>, double>   ? Element::kDouble
    : std::is_same_v<std::remove_const_t<T>, bfloat16> ? Element::kBfloat16
                                                       : Element::kOther;

/// 0 for an element that is only moved.
constexpr std::size_t element_bytes(Element element) {
  return element == Element::kFloat      ? sizeof(float)
         : element == Element::kDouble   ? sizeof(double)
         : element == Element::kBfloat16 ? sizeof(bfloat16)
                                         : 0;
}

/// What routing knows of a view: `rows` rows of `items` items of `item_bytes` bytes, packed. The
/// items of [rows x heads x d_head] are heads where the operation distinguishes them; otherwise a
/// row is one item.
struct ConstRows {
  const std::byte* data = nullptr;    ///< device memory
  std::int64_t rows = 0;              ///< the first extent
  std::int64_t items = 1;             ///< of a row
  std::int64_t item_bytes = 0;        ///< of an item
  bool contiguous = true;             ///< false is refused
  Element element = Element::kOther;  ///< for sums
};
/// The same for rows that are written.
struct Rows {
  std::byte* data = nullptr;          ///< device memory
  std::int64_t rows = 0;              ///< the first extent
  std::int64_t items = 1;             ///< of a row
  std::int64_t item_bytes = 0;        ///< of an item
  bool contiguous = true;             ///< false is refused
  Element element = Element::kOther;  ///< for sums

  /// As rows that are read.
  operator ConstRows() const { return {data, rows, items, item_bytes, contiguous, element}; }
};

/// Views that tokens can be moved in: rows in the first dimension, one after another in memory.
template <class V>
concept RowView = Kokkos::is_view_v<V> && bool(V::rank_dynamic() >= 1) &&
                  std::is_trivially_copyable_v<typename V::non_const_value_type> &&
                  (std::is_same_v<typename V::array_layout, Kokkos::LayoutRight> ||
                   (V::rank() == 1 &&
                    std::is_same_v<typename V::array_layout, Kokkos::LayoutLeft>)) &&
                  bool(Kokkos::SpaceAccessibility<Device, typename V::memory_space>::accessible);

/// A view as rows; with `heads`, the second dimension counts the items of a row.
template <RowView V>
auto rows_of(const V& view, bool heads = false) {
  using T = typename V::value_type;
  using Result = std::conditional_t<std::is_const_v<T>, ConstRows, Rows>;
  Result result{.rows = static_cast<std::int64_t>(view.extent(0)),
                .items = heads ? static_cast<std::int64_t>(view.extent(1)) : 1,
                .item_bytes = sizeof(T),
                .contiguous = view.span_is_contiguous(),
                .element = element_of<T>};
  result.data = reinterpret_cast<decltype(result.data)>(view.data());
  for (std::size_t d = heads ? 2 : 1; d < V::rank(); ++d) {
    result.item_bytes *= static_cast<std::int64_t>(view.extent(d));
  }
  return result;
}

}  // namespace knapformer
