// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <cmath>
#include <iostream>
#include <limits>
#include <optional>

#include "plan/brute_force.hpp"

namespace knapformer {
namespace {

using test::BruteForce;
using test::ElasticProblem;
using test::Evaluation;
using test::Group;

// A build that is slow with sanitizers says so.
#ifdef KNAPFORMER_FEWER_PROBLEMS
constexpr std::uint64_t kRandomProblems = 4500;
constexpr std::uint64_t kSmallProblems = 500;
#else
constexpr std::uint64_t kRandomProblems = 90000;
constexpr std::uint64_t kSmallProblems = 10000;
#endif

// The plan, or nothing when the planner says that the caps cannot be met.
std::optional<Plan> plan_or_refusal(const ElasticProblem& problem) {
  try {
    return problem.plan();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_TRUE(problem.has_caps()) << message;
    EXPECT_FALSE(problem.fits_at_home()) << message;
    const auto names = [&](std::int64_t cap) {
      return cap < PlanRequest::kNoCap && message.find(std::to_string(cap)) != std::string::npos;
    };
    EXPECT_TRUE(names(problem.max_tokens) || names(problem.max_attention_tokens))
        << "the numbers are missing: " << message;
    return std::nullopt;
  }
}

void expect_valid(const Plan& plan, const ElasticProblem& problem) {
  const Group group(problem.rows);
  EXPECT_NO_THROW(plan.validate());
  EXPECT_EQ(plan.ranks(), problem.ranks());
  EXPECT_EQ(plan.heads(), problem.heads);
  ASSERT_TRUE(std::ranges::equal(plan.lengths(), group.values)) << "the order by home is kept";
  for (std::int64_t i = 0; i < plan.sequences(); ++i) {
    const std::int64_t home = plan.homes()[i];
    EXPECT_TRUE(i >= group.offsets[home] && i < group.offsets[home + 1]);
    const std::int64_t length = plan.lengths()[i];
    EXPECT_LE(std::ssize(plan.chunks(i)),
              std::min({problem.max_degree, problem.heads, length, problem.ranks()}));
    std::int64_t tokens = 0, heads = 0;
    for (const Chunk& chunk : plan.chunks(i)) {
      tokens += chunk.tokens;
      heads += chunk.heads;
    }
    EXPECT_EQ(tokens, length);
    EXPECT_EQ(heads, length > 0 ? problem.heads : 0);
  }
}

void expect_caps_kept(const Plan& plan, const ElasticProblem& problem) {
  std::vector<Work> head_tokens(plan.ranks());
  for (std::int64_t i = 0; i < plan.sequences(); ++i) {
    for (const Chunk& chunk : plan.chunks(i)) {
      head_tokens[chunk.rank] += Work{plan.lengths()[i]} * chunk.heads;
    }
  }
  for (std::int64_t rank = 0; rank < plan.ranks(); ++rank) {
    EXPECT_LE(plan.report().tokens_after[rank], problem.max_tokens);
    EXPECT_TRUE(head_tokens[rank] <= Work{problem.max_attention_tokens} * problem.heads);
  }
}

void expect_gaps_not_negative(const PlanReport& report) {
  EXPECT_GE(report.lower_bound_gap, 0);
  EXPECT_GE(report.elastic_lower_bound_gap, 0);
}

TEST(ElasticProperties, HoldForRandomProblems) {
  std::int64_t refused = 0, slower_than_home = 0;
  for (std::uint64_t seed = 0; seed < kRandomProblems; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const ElasticProblem problem = test::random_problem(random);
    const std::optional<Plan> plan = plan_or_refusal(problem);
    if (plan) {
      expect_valid(*plan, problem);
      expect_caps_kept(*plan, problem);
      expect_gaps_not_negative(plan->report());
      test::expect_same_report(plan->report(), Evaluation(*plan, problem));
      if (seed % 4 == 0) {
        EXPECT_EQ(problem.plan().hash(), plan->hash());
      }
      slower_than_home += plan->report().step_seconds > plan->report().step_seconds_before;
    } else {
      ++refused;
    }
    if (testing::Test::HasFailure()) return;
  }
  std::cout << "of " << kRandomProblems << " plans " << refused << " were refused and "
            << slower_than_home << " are slower than staying home\n";
}

// Of all plans there are.
TEST(ElasticProperties, NoPlanBeatsTheBoundOfASmallProblem) {
  std::int64_t refused = 0, refused_wrongly = 0, compute_alone = 0, best = 0;
  double worst = 1;
  for (std::uint64_t seed = 0; seed < kSmallProblems; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const ElasticProblem problem = test::small_problem(random);
    const std::optional<Plan> plan = plan_or_refusal(problem);
    BruteForce all(problem);
    if (plan) {
      expect_valid(*plan, problem);
      expect_caps_kept(*plan, problem);
      expect_gaps_not_negative(plan->report());
      const Evaluation found(*plan, problem);
      test::expect_same_report(plan->report(), found);
      const double largest = std::ranges::max(found.loads);
      const double least = all.least_load(largest);
      const double near = 1e-9 * least + (problem.costs.empty() ? 0 : 1e-3);
      EXPECT_LE(plan->report().lower_bound, least + near);
      EXPECT_LE(plan->report().elastic_lower_bound, least + near);
      if (problem.machine.latency == 0) {
        ++compute_alone;
        best += largest <= least + near;
        if (least > 1) worst = std::max(worst, largest / least);
      }
    } else {
      ++refused;
      refused_wrongly += std::isfinite(all.least_load(std::numeric_limits<double>::infinity()));
    }
    if (testing::Test::HasFailure()) return;
  }
  std::cout << "of " << kSmallProblems << " plans " << refused << " were refused, "
            << refused_wrongly << " of them wrongly; where links cost nothing " << best << " of "
            << compute_alone << " have the smallest largest load possible, the worst " << worst
            << " times that\n";
}

}  // namespace
}  // namespace knapformer
