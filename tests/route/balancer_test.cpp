// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <gtest/gtest.h>

#include <limits>

#include "route/route_support.hpp"

namespace knapformer {
namespace {

using namespace test;  // NOLINT: a test file

using Lengths = std::vector<std::int64_t>;

class BalancerTest : public ::testing::Test {
 protected:
  std::string last_rank() const { return join("rank ", last); }
  Communicator group = world();
  int last = group.size() - 1;
  bool culprit = group.rank() == last;
  std::string topology = join("g1n", group.size());
};

TEST_F(BalancerTest, PlansTheLengthsOfAllRanks) {
  const Balancer balance = balancer(group, topology, 4);
  const Routing routing = balance.prepare(random_lengths(4, group.rank()));
  Lengths expected;
  Lengths homes;
  for (int r = 0; r < group.size(); ++r) {
    for (const std::int64_t length : random_lengths(4, r)) {
      expected.push_back(length);
      homes.push_back(r);
    }
  }
  const Plan& plan = routing.plan();
  EXPECT_EQ(Lengths(plan.lengths().begin(), plan.lengths().end()), expected);
  EXPECT_EQ(Lengths(plan.homes().begin(), plan.homes().end()), homes);
  const std::uint64_t hash = plan.hash();
  for (const std::uint64_t other : group.all_gather(std::span<const std::uint64_t>(&hash, 1))) {
    EXPECT_EQ(other, hash);
  }
}

TEST_F(BalancerTest, TakesMoreSequencesThanItHadRoomFor) {
  const Balancer balance = balancer(group, topology, 4);
  const Balancer copy = balance;  // knows what the other has learnt
  for (const std::size_t count : {3u, 65u, 64u, 1000u, 1000u, 0u}) {
    for (const Balancer& each : {balance, copy}) {
      const Lengths mine(culprit ? count : 2, 5);
      const Plan plan = each.prepare(mine).plan();
      ASSERT_EQ(plan.sequences(), static_cast<std::int64_t>(count) + 2 * last);
      EXPECT_EQ(plan.report().total_tokens, 5 * plan.sequences());
    }
  }
}

TEST_F(BalancerTest, CostsReplaceTheCostModel) {
  const Balancer balance = balancer(group, topology, 4);
  const Lengths lengths = culprit ? Lengths{} : Lengths(40, 10);
  Lengths costs(lengths.size());
  for (std::size_t i = 0; i < costs.size(); ++i) costs[i] = static_cast<std::int64_t>(100 + i);
  const Plan plan = balance.prepare(lengths, costs).plan();
  double work = 0;
  for (const double w : plan.report().work_after) work += w;
  EXPECT_DOUBLE_EQ(work, 40 * 119.5 * last);
}

TEST_F(BalancerTest, OneRankWithBadNumbersFailsAllAlike) {
  const Balancer balance = balancer(group, topology, 4);
  const auto message_for = [&](Lengths lengths, Lengths costs = {}, Lengths other_costs = {}) {
    const Lengths good{1, 2};
    const std::string message = error_of(
        [&] { culprit ? balance.prepare(lengths, costs) : balance.prepare(good, other_costs); });
    EXPECT_TRUE(same_everywhere(message));
    return message;
  };
  EXPECT_EQ(message_for({3, -7}),
            last_rank() + ": the length of sequence 1 is -7; lengths are not negative");
  EXPECT_TRUE(contains(message_for({std::numeric_limits<std::int64_t>::max()}),
                       last_rank() + ": the length of sequence 0 is 9223372036854775807"));
  EXPECT_TRUE(
      contains(message_for({1, 2, 3}, {1, 2}, {1, 1}), last_rank() + ": 2 costs for 3 sequences"));
  EXPECT_TRUE(contains(message_for({1, 2, 3}, {1, 2, -3}, {1, 1}),
                       last_rank() + ": the cost of sequence 2 is -3"));
  if (group.size() > 1) {
    EXPECT_EQ(message_for({1, 2}, {1, 2}), last_rank() +
                                               " gives costs and rank 0 does not; give them on all "
                                               "ranks or on none");
  }
  EXPECT_EQ(message_for({1, 2}), "");  // the group is still usable
}

TEST_F(BalancerTest, RanksMustHaveTheSameOptions) {
  if (group.size() == 1) return;
  const auto message_for = [&](BalancerOptions options) {
    const BalancerOptions usual{.topology = Topology::parse(topology)};
    const auto message = error_of([&] { Balancer(group, culprit ? options : usual); });
    EXPECT_TRUE(same_everywhere(message));
    return message;
  };
  const Topology same = Topology::parse(topology);
  EXPECT_EQ(message_for({.topology = same}), "");
  EXPECT_TRUE(
      contains(message_for({.topology = same, .heads = 2}), "in the heads of " + last_rank()));
  EXPECT_TRUE(contains(message_for({.topology = same, .balance = false}),
                       "in the balance of " + last_rank()));
  EXPECT_TRUE(contains(message_for({.topology = same, .cost = CostModel::transformer(3072, 0.25)}),
                       "in the cost model of " + last_rank()));
  EXPECT_TRUE(contains(message_for({.topology = Topology::singles(99)}),
                       "in the topology of " + last_rank()));
  const auto expect = [&](const std::string& what, const auto& change) {
    BalancerOptions options{.topology = same};
    change(options);
    EXPECT_TRUE(contains(message_for(options), "in the " + what + " of " + last_rank())) << what;
  };
  using Options = BalancerOptions;
  expect("ranks per node", [](Options& o) { o.machine.ranks_per_node = 4; });
  expect("FLOP/s", [](Options& o) { o.machine.flops *= 1.5; });
  expect("bandwidth within nodes", [](Options& o) { o.machine.bandwidth_within += 1; });
  expect("bandwidth between nodes", [](Options& o) { o.machine.bandwidth_between += 1; });
  expect("latency", [](Options& o) { o.machine.latency = 0; });
  expect("layers", [](Options& o) { o.machine.layers = 58; });
  expect("bytes per element", [](Options& o) { o.machine.bytes_per_element = 4; });
  expect("rank speeds",
         [&](Options& o) { o.machine.speeds.assign(static_cast<std::size_t>(group.size()), 2); });
  expect("cap on tokens", [](Options& o) { o.max_tokens_per_rank = 1000; });
  expect("cap on attention tokens", [](Options& o) { o.max_attention_tokens_per_rank = 1000; });
  expect("plan budget", [](Options& o) { o.plan_budget = 0; });
}

TEST_F(BalancerTest, AnElasticTopologyFitsAnyGroup) {
  for (const std::int64_t most : {std::int64_t{1}, std::int64_t{2}, Topology::kAnyDegree}) {
    const Balancer balance(group, {.topology = Topology::elastic(most), .heads = 12});
    const Plan plan = balance.prepare(culprit ? Lengths(5, 400) : Lengths{}).plan();
    plan.validate();
    EXPECT_EQ(plan.ranks(), group.size());
    EXPECT_EQ(plan.report().total_tokens, 2000);
    for (std::int64_t i = 0; i < plan.sequences(); ++i) {
      EXPECT_LE(std::ssize(plan.chunks(i)), most);
    }
  }
}

TEST_F(BalancerTest, PlansForItsMachine) {
  const auto ideal_seconds = [&](const Machine& machine) {
    const Balancer balance(group, {.topology = Topology::elastic(), .machine = machine});
    return balance.prepare(Lengths(3, 100)).plan().report().ideal_seconds;
  };
  const Machine usual;
  EXPECT_DOUBLE_EQ(ideal_seconds({.flops = usual.flops / 2}), 2 * ideal_seconds(usual));
  const std::vector<double> speeds(static_cast<std::size_t>(group.size()), 4);
  EXPECT_DOUBLE_EQ(ideal_seconds({.speeds = speeds}), ideal_seconds(usual) / 4);
  EXPECT_TRUE(contains(error_of([&] { ideal_seconds({.latency = -1}); }), "the latency is -1"));
  const std::vector<double> too_many(speeds.size() + 1, 1);
  EXPECT_TRUE(contains(error_of([&] { ideal_seconds({.speeds = too_many}); }),
                       " speeds for " + std::to_string(group.size()) + " rank"));
}

TEST_F(BalancerTest, CapsThatCannotBeMetFailAllAlikeAndLeaveTheGroupUsable) {
  for (const std::string& name : {topology, std::string("elastic")}) {
    SCOPED_TRACE(name);
    BalancerOptions options{.topology = Topology::parse(name), .max_tokens_per_rank = 9};
    const Balancer tokens(group, options);
    const std::string message = error_of([&] { tokens.prepare(Lengths(2, 5)); });
    EXPECT_TRUE(contains(message, "9")) << message;
    EXPECT_TRUE(same_everywhere(message));
    EXPECT_EQ(tokens.prepare(Lengths(1, 9)).plan().report().total_tokens, 9 * group.size());

    options.max_tokens_per_rank = PlanRequest::kNoCap;
    options.max_attention_tokens_per_rank = 9;
    const Balancer attention(group, options);
    const std::string other = error_of([&] { attention.prepare(Lengths(2, 5)); });
    EXPECT_TRUE(contains(other, "9")) << other;
    EXPECT_TRUE(same_everywhere(other));

    options.balance = false;
    EXPECT_EQ(Balancer(group, options).prepare(Lengths(2, 5)).routed_away_rows(), 0);
  }
}

TEST_F(BalancerTest, TheTopologyMustFitTheGroup) {
  const auto message = error_of([&] { Balancer(group, {.topology = Topology::parse("g3n5")}); });
  EXPECT_EQ(message, "balancer: topology g3n5 is for 15 ranks, the group has " +
                         std::to_string(group.size()));
  EXPECT_TRUE(contains(error_of([&] { balancer(group, topology, 0); }), "0 heads"));
  const Plan plan(group.size() + 1, 1, CostModel::transformer(1), {}, {}, {0}, {});
  EXPECT_TRUE(contains(error_of([&] { Routing(group, plan); }), "the group has"));
}

}  // namespace
}  // namespace knapformer
