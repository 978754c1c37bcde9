// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/predicted_time.hpp"

#include <algorithm>
#include <array>

namespace knapformer {
namespace {

// Per rank, in rows of d elements, within its node [0] and beyond it [1].
struct Traffic {
  std::array<double, 2> routed_out{}, routed_in{};
  // Rows of one tensor that leave before attention, and that arrive. What arrived goes back after
  // it.
  std::array<double, 2> heads_out{}, heads_in{};
  std::int64_t route_peers = 0;
  std::int64_t bag_peers = 0;
};

// Counts the distinct ranks that a rank meets; a new rank starts afresh.
class PeerCounter {
 public:
  explicit PeerCounter(std::int64_t ranks) : met_by_(ranks, -1) {}

  void start(std::int64_t rank) {
    ++visit_;
    count_ = 0;
    met_by_[rank] = visit_;
  }
  void meet(std::int64_t other) {
    count_ += met_by_[other] != visit_;
    met_by_[other] = visit_;
  }
  std::int64_t count() const { return count_; }

 private:
  std::vector<std::int64_t> met_by_;
  std::int64_t visit_ = -1;
  std::int64_t count_ = 0;
};

// Which sequences every rank has a chunk of, in order.
struct SequencesOfRanks {
  explicit SequencesOfRanks(const Plan& plan) : offsets(plan.ranks() + 1), sequences() {
    const auto chunks = plan.all_chunks();
    for (const Chunk& chunk : chunks) ++offsets[chunk.rank + 1];
    for (std::int64_t r = 0; r < plan.ranks(); ++r) offsets[r + 1] += offsets[r];
    sequences.resize(chunks.size());
    std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
    for (std::int64_t i = 0; i < plan.sequences(); ++i) {
      for (const Chunk& chunk : plan.chunks(i)) sequences[next[chunk.rank]++] = i;
    }
  }
  std::span<const std::int64_t> of(std::int64_t rank) const {
    return std::span(sequences).subspan(offsets[rank], offsets[rank + 1] - offsets[rank]);
  }

  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> sequences;
};

void add_rows(const Plan& plan, const Machine& machine, std::vector<Traffic>& traffic) {
  const auto node = [&](std::int64_t rank) { return rank / machine.ranks_per_node; };
  const double heads = static_cast<double>(plan.heads());
  for (std::int64_t i = 0; i < plan.sequences(); ++i) {
    const std::int64_t home = plan.homes()[i];
    const auto chunks = plan.chunks(i);
    for (const Chunk& a : chunks) {
      const double tokens = static_cast<double>(a.tokens);
      if (a.rank != home) {
        const bool far = node(a.rank) != node(home);
        traffic[a.rank].routed_in[far] += tokens;
        traffic[home].routed_out[far] += tokens;
      }
      if (chunks.size() == 1) continue;
      for (const Chunk& b : chunks) {
        if (b.rank == a.rank) continue;
        const bool far = node(a.rank) != node(b.rank);
        traffic[a.rank].heads_out[far] += tokens * (static_cast<double>(b.heads) / heads);
        traffic[a.rank].heads_in[far] +=
            static_cast<double>(b.tokens) * (static_cast<double>(a.heads) / heads);
      }
    }
  }
}

void count_peers(const Plan& plan, std::vector<Traffic>& traffic) {
  const SequencesOfRanks computed(plan);
  PeerCounter peers(plan.ranks());
  std::int64_t loaded = 0;  // sequences are ordered by home
  for (std::int64_t rank = 0; rank < plan.ranks(); ++rank) {
    peers.start(rank);
    for (; loaded < plan.sequences() && plan.homes()[loaded] == rank; ++loaded) {
      for (const Chunk& chunk : plan.chunks(loaded)) peers.meet(chunk.rank);
    }
    for (const std::int64_t i : computed.of(rank)) peers.meet(plan.homes()[i]);
    traffic[rank].route_peers = peers.count();

    peers.start(rank);
    for (const std::int64_t i : computed.of(rank)) {
      for (const Chunk& chunk : plan.chunks(i)) peers.meet(chunk.rank);
    }
    traffic[rank].bag_peers = peers.count();
  }
}

double seconds_of_rows(const Machine& machine, const CostModel& cost,
                       const std::array<double, 2>& out, const std::array<double, 2>& in) {
  const double bytes = static_cast<double>(cost.d_model() * machine.bytes_per_element);
  return std::max(out[0], in[0]) * bytes / machine.bandwidth_within +
         std::max(out[1], in[1]) * bytes / machine.bandwidth_between;
}

}  // namespace

std::vector<double> predicted_seconds(const Plan& plan, const CostModel& cost,
                                      const Machine& machine, const std::vector<double>& load) {
  std::vector<Traffic> traffic(plan.ranks());
  add_rows(plan, machine, traffic);
  count_peers(plan, traffic);
  std::vector<double> seconds(plan.ranks());
  const double layers = static_cast<double>(machine.layers);
  for (std::int64_t rank = 0; rank < plan.ranks(); ++rank) {
    const Traffic& of = traffic[rank];
    // q, k and v out and o back: the larger direction counts three times, then once.
    const double attention =
        kTensorsAroundAttention * seconds_of_rows(machine, cost, of.heads_out, of.heads_in) +
        2 * machine.latency * static_cast<double>(of.bag_peers);
    const double routing = seconds_of_rows(machine, cost, of.routed_out, of.routed_in) +
                           machine.latency * static_cast<double>(of.route_peers);
    seconds[rank] = load[rank] * seconds_per_work(machine, cost) +
                    layers * kAttentionPasses * attention + kTokenExchanges * routing;
  }
  return seconds;
}

}  // namespace knapformer
