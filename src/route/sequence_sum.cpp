// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "route/sequence_sum.hpp"

#include <algorithm>

namespace knapformer {
namespace sequence_sum {

/// Columns that make a team's work.
constexpr std::int64_t kTileColumns = 1024;

/// Bytes of scratch memory of a team: none where sums are made in place.
template <class T>
constexpr int room() {
  return std::is_same_v<Accumulate<T>, T> ? 0 : kTileColumns * sizeof(Accumulate<T>);
}

/// Where a team makes its sums. (nvcc takes no such choice inside the kernel.)
template <class T, class Team>
KOKKOS_FUNCTION Accumulate<T>* place_of_sums(const Team& team, T* result) {
  if constexpr (room<T>() == 0) {
    return result;
  } else {
    return static_cast<Accumulate<T>*>(team.team_scratch(0).get_shmem(room<T>()));
  }
}

template <class T>
void sum(const Device& exec, const SequenceTerms& terms, const ConstRows& chunks,
         const ConstRows& arrived, const Rows& sums) {
  using Policy = Kokkos::TeamPolicy<Device>;
  const std::int64_t columns = sums.item_bytes / static_cast<std::int64_t>(sizeof(T));
  const std::int64_t tiles = (columns + kTileColumns - 1) / kTileColumns;
  if (sums.rows * tiles <= 0) return;
  const auto offsets = terms.offsets;
  const auto rows = terms.rows;
  const std::int64_t local = terms.local;
  const auto* here = reinterpret_cast<const T*>(chunks.data);
  const auto* there = reinterpret_cast<const T*>(arrived.data);
  auto* out = reinterpret_cast<T*>(sums.data);
  const int vector_length = std::min(32, Policy::vector_length_max());
  auto policy = Policy(exec, static_cast<int>(sums.rows * tiles), Kokkos::AUTO, vector_length);
  policy.set_scratch_size(0, Kokkos::PerTeam(room<T>()));
  Kokkos::parallel_for(
      "KnapFormer::sum_terms", policy, KOKKOS_LAMBDA(const Policy::member_type& team) {
        const std::int64_t sequence = team.league_rank() / tiles;
        const std::int64_t first = team.league_rank() % tiles * kTileColumns;
        const std::int64_t rest = columns - first;
        const std::int64_t count = rest < kTileColumns ? rest : kTileColumns;
        const std::int64_t begin = offsets(sequence);
        const std::int64_t end = offsets(sequence + 1);
        const auto range = Kokkos::TeamVectorRange(team, count);
        T* const result = out + sequence * columns + first;
        Accumulate<T>* const to = place_of_sums(team, result);
        if (begin == end) Kokkos::parallel_for(range, [&](const std::int64_t i) { to[i] = 0; });
        // Every element stays with its thread from one term to the next.
        for (std::int64_t k = begin; k < end; ++k) {
          const std::int64_t row = rows(k);
          const T* from =
              (row < local ? here + row * columns : there + (row - local) * columns) + first;
          if (k == begin) {
            Kokkos::parallel_for(range, [&](const std::int64_t i) { to[i] = from[i]; });
          } else {
            Kokkos::parallel_for(range, [&](const std::int64_t i) { to[i] += from[i]; });
          }
        }
        if constexpr (room<T>() != 0) {
          Kokkos::parallel_for(range, [&](const std::int64_t i) { result[i] = to[i]; });
        }
      });
}

}  // namespace sequence_sum

void sum_terms(const Device& exec, const SequenceTerms& terms, const ConstRows& chunks,
               const ConstRows& arrived, const Rows& sums) {
  if (sums.element == Element::kFloat) {
    sequence_sum::sum<float>(exec, terms, chunks, arrived, sums);
  } else if (sums.element == Element::kDouble) {
    sequence_sum::sum<double>(exec, terms, chunks, arrived, sums);
  } else {
    sequence_sum::sum<bfloat16>(exec, terms, chunks, arrived, sums);
  }
}

}  // namespace knapformer
