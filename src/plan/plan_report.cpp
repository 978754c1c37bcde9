// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/plan_report.hpp"

#include <algorithm>
#include <limits>

#include "plan/predicted_time.hpp"
#include "plan/traffic.hpp"

namespace knapformer {
namespace {

// Exact sums per rank; numbers become floating point only at the end, so that order does not
// matter.
struct Sums {
  Work work = 0;
  Work head_tokens = 0;  // length times heads
  std::int64_t tokens = 0;
};

// Work over speed, and what it would be if all ranks finished together.
struct Loads {
  Loads(const std::vector<Sums>& sums, const GroupWork& model, const Machine& machine) {
    double speeds = 0;
    for (std::int64_t rank = 0; rank < std::ssize(sums); ++rank) {
      const double speed = speed_of(machine, rank);
      speeds += speed;
      of_rank.push_back(model.value(sums[rank].work) / speed);
    }
    fair = model.value(model.total()) / speeds;
  }

  double largest() const { return *std::ranges::max_element(of_rank); }

  double max_over_mean() const { return fair == 0 ? 1 : largest() / fair; }

  double max_over_min() const {
    const double least = *std::ranges::min_element(of_rank);
    if (largest() == 0) return 1;
    return least == 0 ? std::numeric_limits<double>::infinity() : largest() / least;
  }

  std::vector<double> of_rank;
  double fair = 0;
};

std::vector<double> work_of(const std::vector<Sums>& sums, const GroupWork& model) {
  std::vector<double> out(sums.size());
  std::ranges::transform(sums, out.begin(), [&](const Sums& of) { return model.value(of.work); });
  return out;
}

std::vector<std::int64_t> tokens_of(const std::vector<Sums>& sums) {
  std::vector<std::int64_t> out(sums.size());
  std::ranges::transform(sums, out.begin(), &Sums::tokens);
  return out;
}

PlacedSequences placed_sequences(const Plan& plan) {
  return {plan.ranks(),   plan.heads(),         plan.homes(),
          plan.lengths(), plan.chunk_offsets(), plan.all_chunks()};
}

}  // namespace

PlanReport make_report(const Plan& plan, const GroupWork& work, const Machine& machine,
                       const PlanBounds& bounds) {
  PlanReport report;
  std::vector<Sums> before(plan.ranks()), after(plan.ranks());
  const PlacedSequences placed = placed_sequences(plan);
  Work ulysses = 0;  // tokens times the heads that other ranks compute for them
  const auto node = [&](std::int64_t rank) { return rank / machine.ranks_per_node; };
  for (std::int64_t i = 0; i < placed.size(); ++i) {
    const std::int64_t home = placed.homes[i];
    const std::int64_t length = placed.lengths[i];
    before[home].work += work.sequence(i);
    before[home].tokens += length;
    report.total_tokens += length;
    for (const Chunk& chunk : placed.chunks(i)) {
      placed.prefetch_for_later(chunk, after);
      Sums& sums = after[chunk.rank];
      sums.work += work.chunk(i, chunk);
      sums.tokens += chunk.tokens;
      sums.head_tokens += Work{length} * chunk.heads;
      ulysses += Work{chunk.tokens} * (plan.heads() - chunk.heads);
      if (chunk.rank != home) report.moved_tokens += chunk.tokens;
      if (node(chunk.rank) != node(home)) report.crossed_tokens += chunk.tokens;
    }
  }
  const Loads loads_before(before, work, machine);
  const Loads loads(after, work, machine);
  report.work_before = work_of(before, work);
  report.work_after = work_of(after, work);
  report.tokens_before = tokens_of(before);
  report.tokens_after = tokens_of(after);
  report.max_over_mean_before = loads_before.max_over_mean();
  report.max_over_mean = loads.max_over_mean();
  report.max_over_min_before = loads_before.max_over_min();
  report.max_over_min = loads.max_over_min();
  report.lower_bound = bounds.topology;
  report.elastic_lower_bound = bounds.elastic;
  if (bounds.topology > 0) report.lower_bound_gap = loads.largest() / bounds.topology - 1;
  if (bounds.elastic > 0) report.elastic_lower_bound_gap = loads.largest() / bounds.elastic - 1;
  const CostModel& cost = work.cost();
  const double heads = static_cast<double>(plan.heads());
  for (const Sums& of : after) {
    report.attention_tokens.push_back(static_cast<double>(of.head_tokens) / heads);
  }
  report.ulysses_tokens = static_cast<double>(ulysses) / heads;
  report.ulysses_bytes_per_layer = kTensorsAroundAttention * report.ulysses_tokens *
                                   static_cast<double>(cost.d_model() * machine.bytes_per_element);
  report.seconds = predicted_seconds(placed, cost, machine, loads.of_rank);
  report.step_seconds = *std::ranges::max_element(report.seconds);
  report.step_seconds_before = loads_before.largest() * seconds_per_work(machine, cost);
  report.ideal_seconds = loads.fair * seconds_per_work(machine, cost);
  if (report.ideal_seconds > 0) report.step_over_ideal = report.step_seconds / report.ideal_seconds;
  return report;
}

}  // namespace knapformer
