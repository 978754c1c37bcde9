// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <knapformer/comm/device.hpp>

namespace knapformer::synthetic {

// splitmix64: a counter-based generator, so that every element is drawn on its own.
KOKKOS_INLINE_FUNCTION std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Of the samples of one rank in one step.
inline std::uint64_t key_of(std::uint64_t seed, std::int64_t step, int home) {
  std::uint64_t key = mix(seed);
  key = mix(key ^ static_cast<std::uint64_t>(step));
  return mix(key ^ static_cast<std::uint64_t>(home));
}

/// Draws a matrix from [-1, 1).
template <class View>
void fill(const Device& exec, std::uint64_t key, const View& out) {
  using T = typename View::value_type;
  Kokkos::parallel_for(
      "KnapFormer::synthetic",
      Kokkos::RangePolicy<Device, Kokkos::IndexType<std::int64_t>>(
          exec, 0, static_cast<std::int64_t>(out.size())),
      KOKKOS_LAMBDA(const std::int64_t i) {
        const std::uint64_t bits = mix(key ^ mix(static_cast<std::uint64_t>(i)));
        out.data()[i] = static_cast<T>(static_cast<double>(bits >> 11) * 0x1p-52 - 1.0);
      });
}

}  // namespace knapformer::synthetic
