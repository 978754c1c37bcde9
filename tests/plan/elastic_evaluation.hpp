// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <bit>

#include "plan/elastic_problem.hpp"

namespace knapformer::test {

/// What a report must say, from the chunks and the formulas of Machine alone, in floating point.
/// At most 64 ranks.
struct Evaluation {
  Evaluation(const Plan& plan, const ElasticProblem& of)
      : problem(of), work(of.ranks()), attention(of.ranks()), tokens(of.ranks()) {
    std::vector<Traffic> traffic(of.ranks());
    const std::vector<std::int64_t> costs =
        of.costs.empty() ? std::vector<std::int64_t>{} : Group(of.costs).values;
    for (std::int64_t i = 0; i < plan.sequences(); ++i) {
      for (const Chunk& chunk : plan.chunks(i)) {
        add_chunk(plan, i, chunk, costs.empty() ? nullptr : &costs[i]);
        add_traffic(plan, i, chunk, traffic);
      }
    }
    double speeds = 0, all_work = 0;
    for (std::int64_t r = 0; r < of.ranks(); ++r) {
      loads.push_back(work[r] / of.speed(r));
      seconds.push_back(seconds_of(r, traffic[r]));
      speeds += of.speed(r);
      all_work += work[r];
    }
    fair = all_work / speeds;
    ideal_seconds = fair * seconds_per_work();
  }

  /// Of a chunk, in units of `constant + 6 d L + gamma L^2`.
  static double work_of(const ElasticProblem& problem, std::int64_t length, const Chunk& chunk,
                        const std::int64_t* cost) {
    const double share = static_cast<double>(chunk.tokens) / static_cast<double>(length);
    if (cost != nullptr) return static_cast<double>(*cost) * share;
    const auto units = [](Work w) { return static_cast<double>(w) / CostModel::kUnitsPerOne; };
    const double n = static_cast<double>(length);
    const double heads = static_cast<double>(chunk.heads) / static_cast<double>(problem.heads);
    return units(problem.cost.per_token()) * n * share +
           (units(problem.cost.per_sequence()) + units(problem.cost.per_token_pair()) * n * n) *
               heads;
  }

  const ElasticProblem& problem;
  std::vector<double> work, attention, loads, seconds;
  std::vector<std::int64_t> tokens;
  std::int64_t total = 0, moved = 0, crossed = 0;
  double ulysses = 0;
  double fair = 0;
  double ideal_seconds = 0;

 private:
  using Rows2 = std::array<double, 2>;  // within the node, and between nodes
  struct Traffic {
    Rows2 routed_out{}, routed_in{};
    Rows2 heads_out{}, heads_in{};  // of q
    std::uint64_t bag_peers = 0;
    std::uint64_t route_peers = 0;
  };

  std::int64_t node(std::int64_t rank) const { return rank / problem.machine.ranks_per_node; }

  void add_chunk(const Plan& plan, std::int64_t i, const Chunk& chunk, const std::int64_t* cost) {
    const std::int64_t length = plan.lengths()[i];
    const double head_share = static_cast<double>(chunk.heads) / static_cast<double>(problem.heads);
    work[chunk.rank] += work_of(problem, length, chunk, cost);
    attention[chunk.rank] += static_cast<double>(length) * head_share;
    tokens[chunk.rank] += chunk.tokens;
    total += chunk.tokens;
    if (chunk.rank != plan.homes()[i]) moved += chunk.tokens;
    if (node(chunk.rank) != node(plan.homes()[i])) crossed += chunk.tokens;
    ulysses += static_cast<double>(chunk.tokens) * (1 - head_share);
  }

  void add_traffic(const Plan& plan, std::int64_t i, const Chunk& a,
                   std::vector<Traffic>& traffic) const {
    const auto bit = [](std::int64_t rank) { return std::uint64_t{1} << rank; };
    const double heads = static_cast<double>(problem.heads);
    const std::int64_t home = plan.homes()[i];
    if (a.rank != home) {
      const bool far = node(a.rank) != node(home);
      traffic[home].routed_out[far] += static_cast<double>(a.tokens);
      traffic[a.rank].routed_in[far] += static_cast<double>(a.tokens);
      traffic[home].route_peers |= bit(a.rank);
      traffic[a.rank].route_peers |= bit(home);
    }
    for (const Chunk& b : plan.chunks(i)) {
      if (b.rank == a.rank) continue;
      const bool far = node(a.rank) != node(b.rank);
      traffic[a.rank].bag_peers |= bit(b.rank);
      traffic[a.rank].heads_out[far] += static_cast<double>(a.tokens * b.heads) / heads;
      traffic[a.rank].heads_in[far] += static_cast<double>(b.tokens * a.heads) / heads;
    }
  }

  double seconds_per_work() const {
    const Machine& machine = problem.machine;
    return 4.0 * static_cast<double>(machine.layers * 4 * problem.cost.d_model()) / machine.flops;
  }

  // `rows` of d elements each way.
  double exchange(const Rows2& out, const Rows2& in, double tensors) const {
    const Machine& machine = problem.machine;
    const double bytes =
        tensors * static_cast<double>(problem.cost.d_model() * machine.bytes_per_element);
    return std::max(out[0], in[0]) * bytes / machine.bandwidth_within +
           std::max(out[1], in[1]) * bytes / machine.bandwidth_between;
  }

  double seconds_of(std::int64_t rank, const Traffic& of) const {
    const Machine& machine = problem.machine;
    const double before =
        exchange(of.heads_out, of.heads_in, 3) + machine.latency * std::popcount(of.bag_peers);
    const double after =
        exchange(of.heads_in, of.heads_out, 1) + machine.latency * std::popcount(of.bag_peers);
    const double routing =
        exchange(of.routed_out, of.routed_in, 1) + machine.latency * std::popcount(of.route_peers);
    return loads[rank] * seconds_per_work() +
           3 * static_cast<double>(machine.layers) * (before + after) + 4 * routing;
  }
};

/// Costs of the caller are shared between tokens in units of 2^-16, so a little is lost.
inline void expect_same_report(const PlanReport& report, const Evaluation& expected) {
  const ElasticProblem& problem = expected.problem;
  const double largest = std::ranges::max(expected.loads);
  const double near = 1e-9 * largest + (problem.costs.empty() ? 0 : 1e-3);
  const auto relative = [](double value) { return 1e-6 * value + 1e-12; };
  for (std::int64_t r = 0; r < problem.ranks(); ++r) {
    EXPECT_NEAR(report.work_after[r] / problem.speed(r), expected.loads[r], near);
    EXPECT_NEAR(report.attention_tokens[r], expected.attention[r], relative(expected.attention[r]));
    EXPECT_NEAR(report.seconds[r], expected.seconds[r], relative(expected.seconds[r]));
  }
  EXPECT_EQ(report.tokens_after, expected.tokens);
  EXPECT_EQ(report.total_tokens, expected.total);
  EXPECT_EQ(report.moved_tokens, expected.moved);
  EXPECT_EQ(report.crossed_tokens, expected.crossed);
  EXPECT_NEAR(report.ulysses_tokens, expected.ulysses, relative(expected.ulysses));
  EXPECT_EQ(report.step_seconds, std::ranges::max(report.seconds));
  EXPECT_NEAR(report.ideal_seconds, expected.ideal_seconds, relative(expected.ideal_seconds));
  if (expected.fair > 1) {
    EXPECT_NEAR(report.max_over_mean, largest / expected.fair, 1e-2 * near + 1e-9);
    EXPECT_NEAR(report.step_over_ideal, report.step_seconds / report.ideal_seconds, 1e-9);
  }
  if (report.lower_bound > 1) {
    EXPECT_NEAR(report.lower_bound_gap, largest / report.lower_bound - 1, near + 1e-9);
  }
}

}  // namespace knapformer::test
