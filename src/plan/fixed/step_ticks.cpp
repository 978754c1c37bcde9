// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/fixed/step_ticks.hpp"

#include <cmath>
#include <numeric>

#include "plan/predicted_time.hpp"

namespace knapformer {
namespace {

// What a rank sends and receives, in rows within its node [0] and beyond it [1].
struct RankTraffic {
  Work work = 0;
  std::array<std::int64_t, 2> routed_out{}, routed_in{};
  std::array<Work, 2> heads_out{}, heads_in{};  // rows times heads
  std::int64_t route_peers = 0;
  std::int64_t bag_peers = 0;
};

class TrafficCount {
 public:
  TrafficCount(const PlanProblem& problem, const Assignment& assignment)
      : problem_(problem),
        assignment_(assignment),
        traffic_(problem.ranks),
        met_by_(problem.ranks, -1),
        tokens_on_node_(problem.ranks / problem.machine.ranks_per_node + 1),
        heads_on_node_(tokens_on_node_.size()) {
    for (std::int64_t i = 0; i < std::ssize(problem.lengths); ++i) add(i);
    count_peers();
  }

  const std::vector<RankTraffic>& of_ranks() const { return traffic_; }

 private:
  std::span<const Chunk> chunks(std::int64_t i) const {
    const auto& offsets = assignment_.chunk_offsets;
    return std::span(assignment_.chunks).subspan(offsets[i], offsets[i + 1] - offsets[i]);
  }
  std::int64_t node(std::int64_t rank) const { return rank / problem_.machine.ranks_per_node; }

  void add(std::int64_t i) {
    const std::int64_t home = problem_.homes[i];
    const auto bag = chunks(i);
    for (const Chunk& a : bag) {
      traffic_[a.rank].work += problem_.work.chunk(i, a);
      if (a.rank == home) continue;
      const bool far = node(a.rank) != node(home);
      traffic_[a.rank].routed_in[far] += a.tokens;
      traffic_[home].routed_out[far] += a.tokens;
    }
    if (bag.size() > 1) add_attention(problem_.lengths[i], bag);
  }

  void add_attention(std::int64_t length, std::span<const Chunk> bag) {
    for (const Chunk& a : bag) {
      tokens_on_node_[node(a.rank)] += a.tokens;
      heads_on_node_[node(a.rank)] += a.heads;
    }
    for (const Chunk& a : bag) {
      RankTraffic& traffic = traffic_[a.rank];
      const std::int64_t tokens = tokens_on_node_[node(a.rank)];
      const std::int64_t heads = heads_on_node_[node(a.rank)];
      traffic.heads_out[0] += Work{a.tokens} * (heads - a.heads);
      traffic.heads_in[0] += Work{a.heads} * (tokens - a.tokens);
      traffic.heads_out[1] += Work{a.tokens} * (problem_.heads - heads);
      traffic.heads_in[1] += Work{a.heads} * (length - tokens);
    }
    for (const Chunk& a : bag) {
      tokens_on_node_[node(a.rank)] = 0;
      heads_on_node_[node(a.rank)] = 0;
    }
  }

  void count_peers() {
    const std::vector<Chunk>& all = assignment_.chunks;
    std::vector<std::int64_t> offsets(problem_.ranks + 1);
    for (const Chunk& chunk : all) ++offsets[chunk.rank + 1];
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    std::vector<std::int64_t> computed(all.size());
    std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
    const std::int64_t sequences = std::ssize(problem_.lengths);
    for (std::int64_t i = 0; i < sequences; ++i) {
      for (const Chunk& chunk : chunks(i)) computed[next[chunk.rank]++] = i;
    }
    std::int64_t loaded = 0;  // sequences are ordered by home
    for (std::int64_t rank = 0; rank < problem_.ranks; ++rank) {
      const auto here =
          std::span(computed).subspan(offsets[rank], offsets[rank + 1] - offsets[rank]);
      start(rank);
      for (; loaded < sequences && problem_.homes[loaded] == rank; ++loaded) {
        for (const Chunk& chunk : chunks(loaded)) meet(chunk.rank);
      }
      for (std::int64_t i : here) meet(problem_.homes[i]);
      traffic_[rank].route_peers = met_;
      start(rank);
      for (std::int64_t i : here) {
        for (const Chunk& chunk : chunks(i)) meet(chunk.rank);
      }
      traffic_[rank].bag_peers = met_;
    }
  }

  void start(std::int64_t rank) {
    met_ = 0;
    met_by_[rank] = ++visit_;
  }
  void meet(std::int64_t other) {
    met_ += met_by_[other] != visit_;
    met_by_[other] = visit_;
  }

  const PlanProblem& problem_;
  const Assignment& assignment_;
  std::vector<RankTraffic> traffic_;
  std::vector<std::int64_t> met_by_;
  std::int64_t visit_ = -1;
  std::int64_t met_ = 0;
  std::vector<std::int64_t> tokens_on_node_, heads_on_node_;  // of one sequence
};

}  // namespace

StepTicks::StepTicks(const PlanProblem& problem) : speeds_(problem.ranks, kSpeedOne) {
  const Machine& machine = problem.machine;
  const CostModel& cost = problem.work.cost();
  double slowest = 1;
  for (std::size_t r = 0; r < machine.speeds.size(); ++r) {
    speeds_[r] = std::llround(machine.speeds[r] * static_cast<double>(kSpeedOne));
    slowest = std::min(slowest, machine.speeds[r]);
  }
  // In units of work first.
  const double unit = seconds_per_work(machine, cost) * problem.work.value(1);
  const double row = static_cast<double>(cost.d_model() * machine.bytes_per_element) / unit;
  const double exchanges = static_cast<double>(machine.layers) * kAttentionPasses;
  const std::array<double, 2> rows{row / machine.bandwidth_within, row / machine.bandwidth_between};
  const double peer = machine.latency / unit;
  const double tokens = static_cast<double>(
      std::accumulate(problem.lengths.begin(), problem.lengths.end(), std::int64_t{1}));
  const double most =
      static_cast<double>(problem.work.total()) / slowest +
      (exchanges * kTensorsAroundAttention + kTokenExchanges) * (rows[0] + rows[1]) * tokens +
      (2 * exchanges + kTokenExchanges) * peer * static_cast<double>(problem.ranks);
  int exponent = 0;
  std::frexp(most, &exponent);
  shift_ = std::max(0, exponent - 60);

  const auto ticks = [&](double units) { return std::llround(std::ldexp(units, -shift_)); };
  for (int tier : {0, 1}) {
    attention_row[tier] = ticks(exchanges * kTensorsAroundAttention * rows[tier]);
    route_row[tier] = ticks(kTokenExchanges * rows[tier]);
  }
  attention_peer = ticks(2 * exchanges * peer);
  route_peer = ticks(kTokenExchanges * peer);
}

Ticks StepTicks::largest(const PlanProblem& problem, const Assignment& assignment) const {
  const TrafficCount count(problem, assignment);
  Ticks largest = 0;
  for (std::int64_t rank = 0; rank < problem.ranks; ++rank) {
    const RankTraffic& of = count.of_ranks()[rank];
    Ticks ticks =
        compute(of.work, rank) + attention_peer * of.bag_peers + route_peer * of.route_peers;
    for (int tier : {0, 1}) {
      const Work heads = std::max(of.heads_out[tier], of.heads_in[tier]);
      ticks += static_cast<Ticks>(heads * attention_row[tier] / problem.heads);
      ticks += std::max(of.routed_out[tier], of.routed_in[tier]) * route_row[tier];
    }
    largest = std::max(largest, ticks);
  }
  return largest;
}

}  // namespace knapformer
