// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/traffic.hpp"

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
        met_by_(placed.ranks, -1),
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
  std::int64_t node(std::int64_t rank) const { return rank / ranks_per_node_; }

  void add_routing(std::int64_t i) {
    const std::int64_t home = placed_.homes[i];
    for (const Chunk& chunk : placed_.chunks(i)) {
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
      split_.push_back({chunk.rank, i});
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
    std::int64_t own = 0;  // the next sequence, which are ordered by home
    for (std::int64_t rank = 0; rank < placed_.ranks; ++rank) {
      start(rank);
      for (const std::int64_t home : routed.of(rank)) meet(home);
      for (; own < placed_.size() && placed_.homes[own] == rank; ++own) {
        for (const Chunk& chunk : placed_.chunks(own)) meet(chunk.rank);
      }
      traffic_[rank].route_peers = met_;
      start(rank);
      for (const std::int64_t i : split.of(rank)) {
        for (const Chunk& chunk : placed_.chunks(i)) meet(chunk.rank);
      }
      traffic_[rank].bag_peers = met_;
    }
  }

  // Counts the ranks that one meets, each once and not itself.
  void start(std::int64_t rank) {
    met_ = 0;
    met_by_[rank] = ++visit_;
  }
  void meet(std::int64_t other) {
    met_ += met_by_[other] != visit_;
    met_by_[other] = visit_;
  }

  const PlacedSequences& placed_;
  std::int64_t ranks_per_node_;
  std::vector<RankTraffic> traffic_;
  std::vector<OfRank> routed_;  // the home of tokens it computes
  std::vector<OfRank> split_;   // a sequence that it shares
  std::vector<std::int64_t> met_by_;
  std::int64_t visit_ = -1;
  std::int64_t met_ = 0;
  std::vector<std::int64_t> tokens_on_node_, heads_on_node_;  // of one sequence
};

}  // namespace

std::vector<RankTraffic> traffic_of(const PlacedSequences& placed, std::int64_t ranks_per_node) {
  return TrafficCount(placed, ranks_per_node).run();
}

}  // namespace knapformer
