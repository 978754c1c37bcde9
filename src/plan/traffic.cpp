// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/traffic.hpp"

#include <bit>
#include <numeric>

namespace knapformer {
namespace {

struct OfRank {
  std::int64_t rank;
  std::int64_t value;
};

// The values of every rank, side by side.
class ByRank {
 public:
  ByRank(std::int64_t ranks, std::span<const OfRank> all)
      : offsets_(ranks + 1), values_(all.size()) {
    for (const OfRank& one : all) ++offsets_[one.rank + 1];
    std::partial_sum(offsets_.begin(), offsets_.end(), offsets_.begin());
    std::vector<std::int64_t> next(offsets_.begin(), offsets_.end() - 1);
    for (const OfRank& one : all) values_[next[one.rank]++] = one.value;
  }
  std::span<const std::int64_t> of(std::int64_t rank) const {
    return std::span(values_).subspan(offsets_[rank], offsets_[rank + 1] - offsets_[rank]);
  }

 private:
  std::vector<std::int64_t> offsets_, values_;
};

class TrafficCount {
 public:
  TrafficCount(const PlacedSequences& placed, std::int64_t ranks_per_node)
      : placed_(placed),
        ranks_per_node_(ranks_per_node),
        traffic_(placed.ranks),
        met_(placed.ranks),
        near_peers_(placed.ranks),
        tokens_on_node_(placed.ranks / ranks_per_node + 1),
        heads_on_node_(tokens_on_node_.size()) {}

  std::vector<RankTraffic> run() {
    for (std::int64_t i = 0; i < placed_.size(); ++i) {
      add_routing(i);
      if (placed_.chunks(i).size() > 1) add_attention(i);
    }
    count_peers();
    return std::move(traffic_);
  }

 private:
  // Bags are of neighbours mostly: ranks are taken in rows, in which a bit says who meets whom.
  static constexpr std::int64_t kRow = 64;
  static std::int64_t row(std::int64_t rank) { return rank / kRow; }
  std::int64_t node(std::int64_t rank) const { return rank / ranks_per_node_; }

  void add_routing(std::int64_t i) {
    const std::int64_t home = placed_.homes[i];
    for (const Chunk& chunk : placed_.chunks(i)) {
      placed_.prefetch_for_later(chunk, traffic_);
      if (chunk.rank == home) continue;
      const bool far = node(chunk.rank) != node(home);
      traffic_[chunk.rank].routed_in[far] += chunk.tokens;
      traffic_[home].routed_out[far] += chunk.tokens;
      routed_.push_back({chunk.rank, home});
    }
  }

  void add_attention(std::int64_t i) {
    const auto bag = placed_.chunks(i);
    for (const Chunk& chunk : bag) {
      tokens_on_node_[node(chunk.rank)] += chunk.tokens;
      heads_on_node_[node(chunk.rank)] += chunk.heads;
    }
    for (const Chunk& chunk : bag) {
      bool beyond = false;
      for (const Chunk& other : bag) {
        if (row(other.rank) == row(chunk.rank)) {
          near_peers_[chunk.rank] |= std::uint64_t{1} << other.rank % kRow;
        } else {
          beyond = true;
        }
      }
      if (beyond) split_.push_back({chunk.rank, i});
      RankTraffic& traffic = traffic_[chunk.rank];
      const std::int64_t tokens = tokens_on_node_[node(chunk.rank)];
      const std::int64_t heads = heads_on_node_[node(chunk.rank)];
      traffic.heads_out[0] += Work{chunk.tokens} * (heads - chunk.heads);
      traffic.heads_in[0] += Work{chunk.heads} * (tokens - chunk.tokens);
      traffic.heads_out[1] += Work{chunk.tokens} * (placed_.heads - heads);
      traffic.heads_in[1] += Work{chunk.heads} * (placed_.lengths[i] - tokens);
    }
    for (const Chunk& chunk : bag) {
      tokens_on_node_[node(chunk.rank)] = 0;
      heads_on_node_[node(chunk.rank)] = 0;
    }
  }

  void count_peers() {
    const ByRank routed(placed_.ranks, routed_);
    const ByRank split(placed_.ranks, split_);
    std::int64_t next = 0;  // sequences are ordered by home
    for (std::int64_t rank = 0; rank < placed_.ranks; ++rank) {
      const std::int64_t first = next;
      while (next < placed_.size() && placed_.homes[next] == rank) ++next;
      RankTraffic& traffic = traffic_[rank];
      traffic.route_peers = distinct(rank, [&](auto meet) {
        for (const std::int64_t home : routed.of(rank)) meet(home);
        for (std::int64_t i = first; i < next; ++i) {
          for (const Chunk& chunk : placed_.chunks(i)) meet(chunk.rank);
        }
      });
      traffic.bag_peers = std::max(std::popcount(near_peers_[rank]) - 1, 0);
      traffic.bag_peers += distinct(rank, [&](auto meet) {
        for (const std::int64_t i : split.of(rank)) {
          for (const Chunk& chunk : placed_.chunks(i)) {
            if (row(chunk.rank) != row(rank)) meet(chunk.rank);
          }
        }
      });
    }
  }

  // How many ranks one meets, each counted once and not itself. `each` passes on all of them.
  template <class Each>
  std::int64_t distinct(std::int64_t rank, const Each& each) {
    std::int64_t count = 0;
    met_[rank] = true;
    each([&](std::int64_t other) {
      count += !met_[other];
      met_[other] = true;
    });
    each([&](std::int64_t other) { met_[other] = false; });
    met_[rank] = false;
    return count;
  }

  const PlacedSequences& placed_;
  std::int64_t ranks_per_node_;
  std::vector<RankTraffic> traffic_;
  std::vector<OfRank> routed_;  // the home of tokens it computes
  std::vector<OfRank> split_;   // a sequence that it shares with ranks of other rows
  std::vector<bool> met_;
  std::vector<std::uint64_t> near_peers_;  // per rank: a bit for every rank of its row in its bags
  std::vector<std::int64_t> tokens_on_node_, heads_on_node_;  // of one sequence
};

}  // namespace

std::vector<RankTraffic> traffic_of(const PlacedSequences& placed, std::int64_t ranks_per_node) {
  return TrafficCount(placed, ranks_per_node).run();
}

}  // namespace knapformer
