// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fstream>
#include <nlohmann/json.hpp>

#include "plan/group.hpp"

namespace knapformer {
namespace {

// What the reference implementation's greedy reaches, on workloads as published.
TEST(Reference, IsMatchedOrBeatenOnEveryCase) {
  std::ifstream file(KNAPFORMER_TEST_DATA "/plans.json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 58u);
  for (const auto& one : cases) {
    const std::string topology = one["topology"];
    const double gamma = one["gamma"];
    SCOPED_TRACE(one["scenario"].get<std::string>() + " " + topology + " gamma " +
                 std::to_string(gamma));
    const CostModel cost = CostModel::transformer(one["d_model"], gamma);
    const test::Group group(one["lengths_by_rank"].get<test::Rows>());
    const Plan plan = make_plan({.topology = Topology::parse(topology),
                                 .cost = cost,
                                 .heads = 48,
                                 .lengths = group.values,
                                 .offsets = group.offsets,
                                 .machine = Machine::without_communication()});
    const PlanReport& report = plan.report();
    EXPECT_LE(plan.max_over_mean(), 1.0002 * one["greedy_max_over_mean"].get<double>());
    EXPECT_NEAR(report.max_over_mean_before, one["max_over_mean_before"].get<double>(), 1e-9);
    EXPECT_EQ(report.total_tokens, one["total_tokens"].get<std::int64_t>());
    EXPECT_GE(report.lower_bound_gap, 0);
  }
}

}  // namespace
}  // namespace knapformer
