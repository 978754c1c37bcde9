// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "kernels/row_loops.hpp"

namespace knapformer::kernels {

/// out(c) += sum over rows of term(row, c), in an order that the shape alone decides. The host
/// takes a stripe of columns a thread, a device a column a lane with the rows dealt to the threads
/// of a team.
template <class Out, class Term>
void add_column_sums(const std::string& label, const Device& exec, std::int64_t rows,
                     const Out& out, const Term& term) {
  using T = typename Out::value_type;
  using Scratch = Kokkos::View<T*, typename Device::scratch_memory_space, Kokkos::MemoryUnmanaged>;
  constexpr int kStripe = kOnHost ? 64 : 1;
  constexpr int kLanes = kOnHost ? 1 : 32;
  constexpr int kThreads = kOnHost ? 1 : 16;
  constexpr int kColumns = kStripe * kLanes;
  const auto columns = static_cast<std::int64_t>(out.extent(0));
  if (rows == 0 || columns == 0) return;

  auto policy = TeamPolicy(exec, league_size((columns + kColumns - 1) / kColumns), kThreads, kLanes)
                    .set_scratch_size(0, Kokkos::PerTeam(Scratch::shmem_size(kThreads * kColumns)));
  Kokkos::parallel_for(
      label, policy, KOKKOS_LAMBDA(const TeamMember& member) {
        const std::int64_t first = member.league_rank() * std::int64_t{kColumns};
        Scratch partial(member.team_scratch(0), kThreads * kColumns);
        Kokkos::parallel_for(Kokkos::TeamThreadRange(member, kThreads), [&](int thread) {
          Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, kLanes), [&](int lane) {
            T sums[kStripe] = {};
            const std::int64_t begin = first + lane * kStripe;
            if (begin + kStripe <= columns) {
              for (std::int64_t row = thread; row < rows; row += kThreads) {
                for (int c = 0; c < kStripe; ++c) sums[c] += term(row, begin + c);
              }
            } else {
              for (std::int64_t row = thread; row < rows; row += kThreads) {
                for (int c = 0; begin + c < columns; ++c) sums[c] += term(row, begin + c);
              }
            }
            for (int c = 0; c < kStripe; ++c) {
              partial(thread * kColumns + lane * kStripe + c) = sums[c];
            }
          });
        });
        member.team_barrier();
        const std::int64_t last = first + kColumns < columns ? first + kColumns : columns;
        Kokkos::parallel_for(Kokkos::TeamVectorRange(member, last - first), [&](std::int64_t c) {
          T sum = 0;
          for (int thread = 0; thread < kThreads; ++thread) sum += partial(thread * kColumns + c);
          out(first + c) += sum;
        });
      });
}

}  // namespace knapformer::kernels
