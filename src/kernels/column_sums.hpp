// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

#include "kernels/row_loops.hpp"

namespace knapformer::kernels {

struct RowRange {
  std::int64_t begin, end;
};

/// For every segment, whose rows range(segment) gives, and every column: done(segment, column, the
/// N sums of term(row, segment, column) over the rows), in an order that the shape alone decides.
/// The host takes a stripe of columns a thread, a device a column a lane with the rows dealt to the
/// threads of a team.
template <class T, int N, class Range, class Term, class Done>
void sum_columns(const std::string& label, const Device& exec, std::int64_t segments,
                 std::int64_t columns, const Range& range, const Term& term, const Done& done) {
  using Scratch = Kokkos::View<T*, typename Device::scratch_memory_space, Kokkos::MemoryUnmanaged>;
  constexpr int kStripe = kOnHost ? 64 : 1;
  constexpr int kLanes = kOnHost ? 1 : 32;
  constexpr int kThreads = kOnHost ? 1 : 16;
  constexpr int kColumns = kStripe * kLanes;
  if (segments == 0 || columns == 0) return;

  const std::int64_t stripes = (columns + kColumns - 1) / kColumns;
  auto policy =
      TeamPolicy(exec, league_size(segments * stripes), kThreads, kLanes)
          .set_scratch_size(0, Kokkos::PerTeam(Scratch::shmem_size(kThreads * kColumns * N)));
  Kokkos::parallel_for(
      label, policy, KOKKOS_LAMBDA(const TeamMember& member) {
        const std::int64_t segment = member.league_rank() / stripes;
        const std::int64_t first = member.league_rank() % stripes * kColumns;
        const RowRange rows = range(segment);
        Scratch partial(member.team_scratch(0), kThreads * kColumns * N);
        Kokkos::parallel_for(Kokkos::TeamThreadRange(member, kThreads), [&](int thread) {
          Kokkos::parallel_for(Kokkos::ThreadVectorRange(member, kLanes), [&](int lane) {
            T sums[N][kStripe] = {};
            const std::int64_t begin = first + lane * kStripe;
            const auto add = [&](std::int64_t row, int c) {
              const Kokkos::Array<T, N> terms = term(row, segment, begin + c);
              for (int n = 0; n < N; ++n) sums[n][c] += terms[n];
            };
            if (begin + kStripe <= columns) {
              for (std::int64_t row = rows.begin + thread; row < rows.end; row += kThreads) {
                for (int c = 0; c < kStripe; ++c) add(row, c);
              }
            } else {
              for (std::int64_t row = rows.begin + thread; row < rows.end; row += kThreads) {
                for (int c = 0; begin + c < columns; ++c) add(row, c);
              }
            }
            for (int n = 0; n < N; ++n) {
              for (int c = 0; c < kStripe; ++c) {
                partial((thread * N + n) * kColumns + lane * kStripe + c) = sums[n][c];
              }
            }
          });
        });
        member.team_barrier();
        const std::int64_t last = first + kColumns < columns ? first + kColumns : columns;
        Kokkos::parallel_for(Kokkos::TeamVectorRange(member, last - first), [&](std::int64_t c) {
          Kokkos::Array<T, N> sums = {};
          for (int thread = 0; thread < kThreads; ++thread) {
            for (int n = 0; n < N; ++n) sums[n] += partial((thread * N + n) * kColumns + c);
          }
          done(segment, first + c, sums);
        });
      });
}

/// out(c) += sum over rows of term(row, c).
template <class Out, class Term>
void add_column_sums(const std::string& label, const Device& exec, std::int64_t rows,
                     const Out& out, const Term& term) {
  using T = typename Out::value_type;
  if (rows == 0) return;
  sum_columns<T, 1>(
      label, exec, 1, static_cast<std::int64_t>(out.extent(0)),
      KOKKOS_LAMBDA(std::int64_t) {
        return RowRange{0, rows};
      },
      KOKKOS_LAMBDA(std::int64_t row, std::int64_t, std::int64_t c) {
        return Kokkos::Array<T, 1>{term(row, c)};
      },
      KOKKOS_LAMBDA(std::int64_t, std::int64_t c, const Kokkos::Array<T, 1>& sums) {
        out(c) += sums[0];
      });
}

/// See sum_columns, with the rows of a chunk for each segment.
template <class T, int N, class Term, class Done>
void sum_chunk_columns(const std::string& label, const Device& exec, const ChunkOffsets& offsets,
                       std::int64_t columns, const Term& term, const Done& done) {
  sum_columns<T, N>(
      label, exec, static_cast<std::int64_t>(offsets.extent(0)) - 1, columns,
      KOKKOS_LAMBDA(std::int64_t chunk) {
        return RowRange{offsets(chunk), offsets(chunk + 1)};
      },
      term, done);
}

}  // namespace knapformer::kernels
