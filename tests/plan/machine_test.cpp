// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <functional>
#include <limits>

#include "plan/group.hpp"

namespace knapformer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Machine changed(const std::function<void(Machine&)>& change) {
  Machine machine;
  change(machine);
  return machine;
}

TEST(Machine, DefaultsAndLimitsAreAccepted) {
  EXPECT_NO_THROW(Machine().check(1));
  EXPECT_NO_THROW(Machine::without_communication().check(1));
  const Machine least{.ranks_per_node = 1,
                      .flops = 1,
                      .bandwidth_within = 1,
                      .bandwidth_between = 1,
                      .latency = 0,
                      .layers = 1,
                      .bytes_per_element = 1,
                      .speeds = {1.0 / 1024, 1024}};
  EXPECT_NO_THROW(least.check(2));
  const Machine most{.ranks_per_node = std::int64_t{1} << 24,
                     .flops = 1e21,
                     .bandwidth_within = kInfinity,
                     .bandwidth_between = kInfinity,
                     .latency = 1e3,
                     .layers = std::int64_t{1} << 20,
                     .bytes_per_element = 64};
  EXPECT_NO_THROW(most.check(2));
}

TEST(Machine, RefusesEveryNumberOutOfRangeAndNamesIt) {
  const auto refuses = [](const std::string& message, const std::function<void(Machine&)>& change) {
    EXPECT_ERROR(changed(change).check(2), message);
  };
  for (const auto& [value, shown] : {std::pair<std::int64_t, std::string>{0, "0"},
                                     {-3, "-3"},
                                     {(std::int64_t{1} << 24) + 1, "16777217"}}) {
    refuses("machine: ranks per node is " + shown + "; expected 1 to 16777216",
            [value = value](Machine& m) { m.ranks_per_node = value; });
  }
  refuses("machine: the number of layers is 0; expected 1 to 1048576",
          [](Machine& m) { m.layers = 0; });
  refuses("the number of layers is 1048577", [](Machine& m) { m.layers = (1 << 20) + 1; });
  refuses("machine: bytes per element is 0; expected 1 to 64",
          [](Machine& m) { m.bytes_per_element = 0; });
  refuses("bytes per element is 65", [](Machine& m) { m.bytes_per_element = 65; });
  for (const auto& [value, shown] :
       {std::pair<double, std::string>{0.5, "0.5"}, {-1, "-1"}, {kNan, "nan"}}) {
    refuses("machine: FLOP/s of a rank is " + shown + "; expected 1 to 1e+21",
            [value = value](Machine& m) { m.flops = value; });
    refuses("machine: the bandwidth within a node is " + shown + "; expected 1 to inf",
            [value = value](Machine& m) { m.bandwidth_within = value; });
    refuses("machine: the bandwidth between nodes is " + shown + "; expected 1 to inf",
            [value = value](Machine& m) { m.bandwidth_between = value; });
  }
  refuses("FLOP/s of a rank is inf", [](Machine& m) { m.flops = kInfinity; });
  for (const auto& [value, shown] :
       {std::pair<double, std::string>{-1e-9, "-1e-09"}, {1001, "1001"}, {kNan, "nan"}}) {
    refuses("machine: the latency is " + shown + "; expected 0 to 1000",
            [value = value](Machine& m) { m.latency = value; });
  }
}

TEST(Machine, NeedsASpeedForEveryRankOrNone) {
  EXPECT_ERROR(Machine{.speeds = {1}}.check(2), "machine: 1 speed for 2 ranks; give one for each");
  EXPECT_ERROR((Machine{.speeds = {1, 1, 1}}.check(1)), "machine: 3 speeds for 1 rank; give one");
  for (const double bad : {0.0, -1.0, 1025.0, 1e-4, kInfinity, kNan}) {
    const Machine machine{.speeds = {1, bad}};
    EXPECT_ERROR(machine.check(2), "machine: the speed of rank 1 is ");
  }
}

TEST(Machine, IsCheckedByPlansAndPlanners) {
  const test::Group group({{5}, {}});
  const CostModel cost = CostModel::transformer(4);
  const Machine bad{.latency = -1};
  EXPECT_ERROR(make_plan({.topology = Topology::elastic(),
                          .cost = cost,
                          .lengths = group.values,
                          .offsets = group.offsets,
                          .machine = bad}),
               "the latency is -1");
  EXPECT_ERROR(Plan(1, 1, cost, {0}, {5}, {0, 1}, {{0, 0, 5, 0, 1}}, {}, bad), "the latency is -1");
}

}  // namespace
}  // namespace knapformer
