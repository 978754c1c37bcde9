// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <knapformer/plan/plan.hpp>
#include <span>
#include <vector>

namespace knapformer {

/// What a rank sends and receives, in rows of d elements, within its node [0] and beyond it [1].
struct RankTraffic {
  std::array<std::int64_t, 2> routed_out{}, routed_in{};
  /// Times heads: rows of one tensor that leave before attention, and that arrive. What arrived
  /// goes back after it.
  std::array<Work, 2> heads_out{}, heads_in{};
  std::int64_t route_peers = 0;
  std::int64_t bag_peers = 0;
};

/// Sequences and their chunks, as a Plan has them: ordered by home.
struct PlacedSequences {
  std::int64_t ranks;
  std::int64_t heads;
  std::span<const std::int64_t> homes, lengths, chunk_offsets;
  std::span<const Chunk> all_chunks;

  std::int64_t size() const { return std::ssize(lengths); }
  std::span<const Chunk> chunks(std::int64_t i) const {
    return all_chunks.subspan(chunk_offsets[i], chunk_offsets[i + 1] - chunk_offsets[i]);
  }

  /// Fetches what a rank has that computes one of the next chunks: ranks follow in any order.
  template <class OfRank>
  void prefetch_for_later(const Chunk& chunk, const std::vector<OfRank>& of_ranks) const {
    constexpr std::ptrdiff_t kAhead = 16;
    const Chunk* later = &chunk + std::min(kAhead, &all_chunks.back() - &chunk);
    __builtin_prefetch(&of_ranks[later->rank], 1);
  }
};

/// Of every rank.
std::vector<RankTraffic> traffic_of(const PlacedSequences& placed, std::int64_t ranks_per_node);

}  // namespace knapformer
