// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <knapformer/comm/device.hpp>
#include <knapformer/plan/error.hpp>
#include <limits>
#include <string>
#include <type_traits>

namespace knapformer::kernels {

inline constexpr bool kOnHost = std::is_same_v<Device, Kokkos::DefaultHostExecutionSpace>;

using TeamPolicy = Kokkos::TeamPolicy<Device, Kokkos::IndexType<std::int64_t>>;
using TeamMember = TeamPolicy::member_type;

/// Kokkos counts a league in an int.
inline int league_size(std::int64_t members) {
  if (members > std::numeric_limits<int>::max()) {
    throw Error("kernels: " + std::to_string(members) +
                " pieces of work are beyond the 32-bit size of a Kokkos league");
  }
  return static_cast<int>(members);
}

/// Runs body(member, row) for every row: one thread a row on the host, one warp on a device, where
/// lane_for and lane_sum share the columns among its lanes.
template <class Body>
void for_each_row(const std::string& label, const Device& exec, std::int64_t rows,
                  const Body& body) {
  if (rows == 0) return;
  constexpr int kRows = 8;  // per league member: enough to make the scheduling negligible
  constexpr int kThreads = kOnHost ? 1 : kRows;
  constexpr int kLanes = kOnHost ? 1 : 32;
  Kokkos::parallel_for(
      label, TeamPolicy(exec, league_size((rows + kRows - 1) / kRows), kThreads, kLanes),
      KOKKOS_LAMBDA(const TeamMember& member) {
        const std::int64_t first = member.league_rank() * std::int64_t{kRows};
        const std::int64_t last = first + kRows < rows ? first + kRows : rows;
        Kokkos::parallel_for(Kokkos::TeamThreadRange(member, first, last),
                             [&](std::int64_t row) { body(member, row); });
      });
}

/// body(i) for i in [0, n), by the lanes of one thread. A plain loop on the host, so that it
/// becomes vector code.
template <class Body>
KOKKOS_FORCEINLINE_FUNCTION void lane_for([[maybe_unused]] const TeamMember& member, std::int64_t n,
                                          const Body& body) {
  KOKKOS_IF_ON_HOST((for (std::int64_t i = 0; i < n; ++i) body(i);))
  KOKKOS_IF_ON_DEVICE((Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, n), body);))
}

/// The sum of term(i) over [0, n), by the lanes of one thread. The host adds in several running
/// sums, for the same reason; the order is fixed.
template <class T, class Term>
KOKKOS_FORCEINLINE_FUNCTION T lane_sum([[maybe_unused]] const TeamMember& member, std::int64_t n,
                                       const Term& term) {
  T total = 0;
  KOKKOS_IF_ON_HOST((
      constexpr int kSums = 16; T sums[kSums] = {}; std::int64_t i = 0;
      for (; i + kSums <= n; i += kSums) {
        for (int s = 0; s < kSums; ++s) sums[s] += term(i + s);
      } for (int s = 0; i + s < n; ++s) sums[s] += term(i + s);
      for (int width = kSums / 2; width > 0; width /= 2) {
        for (int s = 0; s < width; ++s) sums[s] += sums[s + width];
      } total = sums[0];))
  KOKKOS_IF_ON_DEVICE((Kokkos::parallel_reduce(
                           Kokkos::ThreadVectorRange(member, n),
                           [&](std::int64_t i, T& sum) { sum += term(i); }, total);))
  return total;
}

}  // namespace knapformer::kernels
