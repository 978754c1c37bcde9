// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/plan_report.hpp"

#include <algorithm>
#include <limits>

#include "plan/predicted_time.hpp"

namespace knapformer {
namespace {

// Exact sums per rank; numbers become floating point only at the end, so that order does not
// matter.
struct Sums {
  explicit Sums(std::int64_t ranks) : work(ranks), tokens(ranks), head_tokens(ranks) {}
  std::vector<Work> work;
  std::vector<std::int64_t> tokens;
  std::vector<Work> head_tokens;  // length times heads
};

// Work over speed, and what it would be if all ranks finished together.
struct Loads {
  Loads(const std::vector<Work>& work, const GroupWork& model, const Machine& machine) {
    double speeds = 0;
    for (std::int64_t rank = 0; rank < std::ssize(work); ++rank) {
      const double speed = speed_of(machine, rank);
      speeds += speed;
      of_rank.push_back(model.value(work[rank]) / speed);
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

std::vector<double> values(const std::vector<Work>& work, const GroupWork& model) {
  std::vector<double> out(work.size());
  std::ranges::transform(work, out.begin(), [&](Work w) { return model.value(w); });
  return out;
}

}  // namespace

PlanReport make_report(const Plan& plan, const GroupWork& work, const Machine& machine,
                       const PlanBounds& bounds) {
  PlanReport report;
  Sums before(plan.ranks());
  Sums after(plan.ranks());
  Work ulysses = 0;  // tokens times the heads that other ranks compute for them
  const auto node = [&](std::int64_t rank) { return rank / machine.ranks_per_node; };
  for (std::int64_t i = 0; i < plan.sequences(); ++i) {
    const std::int64_t home = plan.homes()[i];
    const std::int64_t length = plan.lengths()[i];
    before.work[home] += work.sequence(i);
    before.tokens[home] += length;
    report.total_tokens += length;
    for (const Chunk& chunk : plan.chunks(i)) {
      after.work[chunk.rank] += work.chunk(i, chunk);
      after.tokens[chunk.rank] += chunk.tokens;
      after.head_tokens[chunk.rank] += Work{length} * chunk.heads;
      ulysses += Work{chunk.tokens} * (plan.heads() - chunk.heads);
      if (chunk.rank != home) report.moved_tokens += chunk.tokens;
      if (node(chunk.rank) != node(home)) report.crossed_tokens += chunk.tokens;
    }
  }
  const Loads loads_before(before.work, work, machine);
  const Loads loads(after.work, work, machine);
  report.work_before = values(before.work, work);
  report.work_after = values(after.work, work);
  report.tokens_before = std::move(before.tokens);
  report.tokens_after = std::move(after.tokens);
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
  for (Work n : after.head_tokens)
    report.attention_tokens.push_back(static_cast<double>(n) / heads);
  report.ulysses_tokens = static_cast<double>(ulysses) / heads;
  report.ulysses_bytes_per_layer = kTensorsAroundAttention * report.ulysses_tokens *
                                   static_cast<double>(cost.d_model() * machine.bytes_per_element);
  report.seconds = predicted_seconds(plan, cost, machine, loads.of_rank);
  report.step_seconds = *std::ranges::max_element(report.seconds);
  report.step_seconds_before = loads_before.largest() * seconds_per_work(machine, cost);
  report.ideal_seconds = loads.fair * seconds_per_work(machine, cost);
  if (report.ideal_seconds > 0) report.step_over_ideal = report.step_seconds / report.ideal_seconds;
  return report;
}

}  // namespace knapformer
