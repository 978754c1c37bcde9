// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Macros.hpp>
#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace knapformer {

/// The first 16 bits of a float, rounded to nearest even: 2 bytes everywhere, also on the host. For
/// storage: it reads as a float, and arithmetic is that of floats.
class bfloat16 {
 public:
  bfloat16() = default;
  /// Rounds to the nearest, ties to even.
  KOKKOS_FUNCTION bfloat16(float value) : bits_(rounded(std::bit_cast<std::uint32_t>(value))) {}
  /// Rounds once: a float halfway between two neighbours gives way to what it was rounded from.
  KOKKOS_FUNCTION explicit bfloat16(double value) {
    const auto nearest = static_cast<float>(value);
    auto bits = std::bit_cast<std::uint32_t>(nearest);
    const double error = value - static_cast<double>(nearest);
    if ((bits & 0xffffU) == 0x8000U && error != 0) bits += (error > 0) == (value > 0) ? 1 : -1;
    bits_ = rounded(bits);
  }
  /// As from a double.
  template <std::integral I>
  KOKKOS_FUNCTION explicit bfloat16(I value) : bfloat16(static_cast<double>(value)) {}

  /// Exact.
  KOKKOS_FUNCTION operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16);
  }

 private:
  /// NaN stays NaN; what is beyond the largest number becomes infinity.
  KOKKOS_FUNCTION static std::uint16_t rounded(std::uint32_t bits) {
    const bool is_nan = static_cast<std::int32_t>(bits & 0x7fffffffU) > 0x7f800000;
    const std::uint32_t nearest = bits + 0x7fffU + ((bits >> 16) & 1U);
    return static_cast<std::uint16_t>((is_nan ? bits | 0x00400000U : nearest) >> 16);
  }

  std::uint16_t bits_;
};
static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16>);

/// What elements of T are computed and summed in.
template <class T>
using Accumulate = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

}  // namespace knapformer
