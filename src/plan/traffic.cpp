// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/traffic.hpp"

#include <numeric>

namespace knapformer {
namespace {

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
    }
  }

  void add_attention(std::int64_t i) {
    const auto bag = placed_.chunks(i);
    for (const Chunk& chunk : bag) {
      tokens_on_node_[node(chunk.rank)] += chunk.tokens;
      heads_on_node_[node(chunk.rank)] += chunk.heads;
    }
    for (const Chunk& chunk : bag) {
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
    std::vector<std::int64_t> offsets(placed_.ranks + 1);
    for (const Chunk& chunk : placed_.all_chunks) ++offsets[chunk.rank + 1];
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    std::vector<std::int64_t> computed(placed_.all_chunks.size());
    std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
    for (std::int64_t i = 0; i < placed_.size(); ++i) {
      for (const Chunk& chunk : placed_.chunks(i)) computed[next[chunk.rank]++] = i;
    }
    std::int64_t loaded = 0;  // sequences are ordered by home
    for (std::int64_t rank = 0; rank < placed_.ranks; ++rank) {
      const auto here =
          std::span(computed).subspan(offsets[rank], offsets[rank + 1] - offsets[rank]);
      start(rank);
      for (; loaded < placed_.size() && placed_.homes[loaded] == rank; ++loaded) {
        for (const Chunk& chunk : placed_.chunks(loaded)) meet(chunk.rank);
      }
      for (const std::int64_t i : here) meet(placed_.homes[i]);
      traffic_[rank].route_peers = met_;
      start(rank);
      for (const std::int64_t i : here) {
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
