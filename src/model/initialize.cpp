// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "model/initialize.hpp"

#include <cmath>

namespace knapformer::model {

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every
/// one of the argument.
KOKKOS_INLINE_FUNCTION std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

template <class T>
void fill_random(const Device& exec, std::uint64_t seed, std::uint64_t first_counter,
                 double deviation, const Vector<T>& values) {
  // A uniform integer below n has the variance (n^2 - 1) / 12.
  const double factor = deviation / std::sqrt(4 * (65536.0 * 65536.0 - 1) / 12);
  const std::uint64_t key = mix(seed + 0x9e3779b97f4a7c15U);
  Kokkos::parallel_for(
      "KnapFormer::fill_random",
      Kokkos::RangePolicy<Device, Kokkos::IndexType<std::int64_t>>(
          exec, 0, static_cast<std::int64_t>(values.extent(0))),
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::uint64_t counter = first_counter + static_cast<std::uint64_t>(i);
        std::uint64_t bits = mix(key + (counter + 1) * 0x9e3779b97f4a7c15U);
        std::int64_t sum = -4 * 65535;
        for (int part = 0; part < 4; ++part, bits >>= 16) {
          sum += 2 * static_cast<std::int64_t>(bits & 0xffff);
        }
        values(i) = static_cast<T>(static_cast<double>(sum) * (factor / 2));
      });
}

template void fill_random<float>(const Device&, std::uint64_t, std::uint64_t, double,
                                 const Vector<float>&);
template void fill_random<double>(const Device&, std::uint64_t, std::uint64_t, double,
                                  const Vector<double>&);

}  // namespace knapformer::model
