// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/fixed/step_ticks.hpp"

#include <cmath>
#include <numeric>

#include "plan/predicted_time.hpp"
#include "plan/traffic.hpp"

namespace knapformer {
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
  const PlacedSequences placed{
      problem.ranks,    problem.heads, problem.homes, problem.lengths, assignment.chunk_offsets,
      assignment.chunks};
  const std::vector<RankTraffic> traffic = traffic_of(placed, problem.machine.ranks_per_node);
  std::vector<Work> work(problem.ranks);
  for (std::int64_t i = 0; i < placed.size(); ++i) {
    for (const Chunk& chunk : placed.chunks(i)) work[chunk.rank] += problem.work.chunk(i, chunk);
  }
  Ticks largest = 0;
  for (std::int64_t rank = 0; rank < problem.ranks; ++rank) {
    const RankTraffic& of = traffic[rank];
    Ticks ticks =
        compute(work[rank], rank) + attention_peer * of.bag_peers + route_peer * of.route_peers;
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
