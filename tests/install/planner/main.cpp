// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <cstdint>
#include <cstdio>
#include <knapformer/plan/error.hpp>
#include <knapformer/plan/planner.hpp>
#include <vector>

namespace kf = knapformer;

int main() {
  const auto topology = kf::Topology::parse("g1n2+g2n1");
  const auto cost = kf::CostModel::transformer(64);
  const std::vector<std::int64_t> lengths = {100, 200, 300, 400};
  const std::vector<std::int64_t> offsets = {0, 4, 4, 4, 4};
  const kf::Plan plan = kf::make_plan({.topology = topology,
                                       .cost = cost,
                                       .heads = 8,
                                       .lengths = lengths,
                                       .offsets = offsets,
                                       .machine = kf::Machine::without_communication()});
  plan.validate();
  const bool balanced = plan.max_over_mean() >= 1 && plan.max_over_mean() < 2;

  bool refused = false;
  try {
    kf::Topology::parse("g4n8x");
  } catch (const kf::Error&) {  // an exception of the library is caught as such by its user
    refused = true;
  }
  std::printf("max/mean %.3f, error caught: %s\n", plan.max_over_mean(), refused ? "yes" : "no");
  return balanced && refused ? 0 : 1;
}
