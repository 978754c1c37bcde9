// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <knapformer/comm/device.hpp>
#include <type_traits>

namespace knapformer {

/// What routing knows of a view: `rows` rows of `items` items of `item_bytes` bytes, packed. The
/// items of [rows x heads x d_head] are heads where the operation distinguishes them; otherwise a
/// row is one item.
struct ConstRows {
  const std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t items = 1;
  std::int64_t item_bytes = 0;
  bool contiguous = true;
};
struct Rows {
  std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t items = 1;
  std::int64_t item_bytes = 0;
  bool contiguous = true;

  operator ConstRows() const { return {data, rows, items, item_bytes, contiguous}; }
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
  using Result = std::conditional_t<std::is_const_v<typename V::value_type>, ConstRows, Rows>;
  using Byte =
      std::conditional_t<std::is_const_v<typename V::value_type>, const std::byte, std::byte>;
  std::int64_t row_bytes = sizeof(typename V::value_type);
  for (std::size_t d = 1; d < V::rank(); ++d) {
    if (d == 1 && heads) continue;
    row_bytes *= static_cast<std::int64_t>(view.extent(d));
  }
  return Result{reinterpret_cast<Byte*>(view.data()), static_cast<std::int64_t>(view.extent(0)),
                heads ? static_cast<std::int64_t>(view.extent(1)) : 1, row_bytes,
                view.span_is_contiguous()};
}

}  // namespace knapformer
