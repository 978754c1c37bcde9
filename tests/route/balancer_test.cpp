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
      contains(message_for({1, 2, 3}, {1, 2}, {1, 1}), last_rank() + ": 2 costs are given for 3"));
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
