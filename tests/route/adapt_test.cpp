// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Plans follow the speeds that busy times show. The busy time of a rank is its work over its true
// speed here, so everything is deterministic.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "route/route_support.hpp"

namespace knapformer {
namespace {

using namespace test;  // NOLINT: a test file

using Lengths = std::vector<std::int64_t>;

class Adapt : public ::testing::Test {
 protected:
  std::size_t at(int rank) const { return static_cast<std::size_t>(rank); }
  std::vector<double> ones() const { return std::vector<double>(at(group.size()), 1.0); }

  /// Busy seconds of every rank with a plan.
  std::vector<double> busy(const Plan& plan, const std::vector<double>& speeds) const {
    std::vector<double> seconds = plan.report().work_after;
    for (std::size_t r = 0; r < seconds.size(); ++r) seconds[r] /= 1e9 * speeds[r];
    return seconds;
  }
  static double largest(const std::vector<double>& numbers) {
    return *std::max_element(numbers.begin(), numbers.end());
  }
  Lengths lengths(std::uint64_t step) const {
    Lengths out;
    std::mt19937_64 random(100 * step + static_cast<std::uint64_t>(group.rank()));
    for (int i = 0; i < 60; ++i) out.push_back(static_cast<std::int64_t>(50 + random() % 200));
    return out;
  }
  BalancerOptions adapting() const {
    return {.topology = Topology::parse(join("g1n", group.size())),
            .machine = Machine::without_communication(),
            .adapt_to_speed = true};
  }
  Balancer knowing(const std::vector<double>& speeds) const {
    BalancerOptions options = adapting();
    options.adapt_to_speed = false;
    options.machine.speeds = speeds;
    return Balancer(group, options);
  }

  Communicator group = world();
};

TEST_F(Adapt, SettlesWithinTenStepsOnWhatKnownSpeedsGive) {
  std::vector<double> speeds = ones();
  speeds.back() = 0.5;
  const Balancer known = knowing(speeds);
  for (const bool ahead : {false, true}) {  // the next plan is started before this step is measured
    SCOPED_TRACE(ahead ? "planned ahead" : "planned at once");
    const Balancer balance(group, adapting());
    std::optional<PendingRouting> next;
    for (std::uint64_t step = 0; step < 20; ++step) {
      const Routing routing = next ? next->wait() : balance.prepare(lengths(step));
      next.reset();
      if (ahead) next = balance.start_prepare(lengths(step + 1));
      const std::vector<double> seconds = busy(routing.plan(), speeds);
      balance.observe(routing, seconds[at(group.rank())]);
      const double best = largest(busy(known.prepare(lengths(step)).plan(), speeds));
      if (step == 0 && group.size() > 1) {
        EXPECT_GT(largest(seconds), 1.2 * best);
      }
      if (step >= 9) {
        EXPECT_LT(largest(seconds), 1.05 * best) << step;
      }
    }
  }
}

TEST_F(Adapt, EstimatesRelativeSpeedsAlikeEverywhere) {
  const Balancer balance(group, adapting());
  std::vector<double> speeds;
  double sum = 0;
  for (int r = 0; r < group.size(); ++r) sum += speeds.emplace_back(1 + r);
  for (std::uint64_t step = 0; step < 25; ++step) {
    const Routing routing = balance.prepare(lengths(step));
    balance.observe(routing, busy(routing.plan(), speeds)[at(group.rank())]);
  }
  const std::vector<double> estimate = balance.speed_estimate();
  ASSERT_EQ(estimate.size(), speeds.size());
  for (int r = 0; r < group.size(); ++r) {
    EXPECT_NEAR(estimate[at(r)], speeds[at(r)] * group.size() / sum, 1e-4) << r;
  }
  const auto all = group.all_gather(std::span<const double>(estimate));
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], estimate[i % estimate.size()]);
}

TEST_F(Adapt, OneOddStepChangesLittle) {
  const Balancer balance(group, adapting());
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Routing routing = balance.prepare(lengths(step));
    double seconds = busy(routing.plan(), ones())[at(group.rank())];
    if (step % 5 == 2 && group.rank() == 0) seconds *= 10;
    balance.observe(routing, seconds);
    for (const double speed : balance.speed_estimate()) EXPECT_NEAR(speed, 1, 1e-4) << step;
  }
}

TEST_F(Adapt, RanksWithLittleWorkKeepTheirEstimate) {
  if (group.size() == 1) return;
  BalancerOptions options = adapting();
  options.balance = false;  // the last rank has one short sequence
  const Balancer balance(group, options);
  const bool last = group.rank() == group.size() - 1;
  for (int step = 0; step < 5; ++step) {
    const Routing routing = balance.prepare(last ? Lengths{3} : Lengths{100, 100});
    balance.observe(routing, last ? 1.0 : 2.0);
  }
  const std::vector<double> estimate = balance.speed_estimate();
  for (const double speed : estimate) EXPECT_NEAR(speed, 1, 1e-4);
}

TEST_F(Adapt, ARankThatWasSlowForAWhileGetsWorkAgain) {
  if (group.size() == 1) return;
  const Balancer balance(group, adapting());
  bool idle = false;
  for (int step = 0; step < 300; ++step) {
    const Routing routing = balance.prepare(Lengths(4, 100));
    std::vector<double> speeds = ones();
    if (step < 8) speeds.back() = 0.01;
    balance.observe(routing, busy(routing.plan(), speeds)[at(group.rank())]);
    idle = idle || routing.plan().report().work_after.back() == 0;
  }
  EXPECT_TRUE(idle);
  EXPECT_NEAR(balance.speed_estimate().back(), 1, 1e-2);
}

TEST_F(Adapt, TimesTooShortToBeTrueSayNothing) {
  const Balancer balance(group, adapting());
  for (int step = 0; step < 5; ++step) {
    const Routing routing = balance.prepare(Lengths(16, 50));
    const double seconds = busy(routing.plan(), ones())[at(group.rank())];
    balance.observe(routing,
                    group.rank() == 0 ? std::numeric_limits<double>::denorm_min() : seconds);
  }
  for (const double speed : balance.speed_estimate()) EXPECT_NEAR(speed, 1, 1e-4);
}

TEST_F(Adapt, AnEstimateCanBeSavedAndRestored) {
  std::vector<double> speeds = ones();
  speeds.front() = 3;
  BalancerOptions options = adapting();
  const Balancer before(group, options);
  for (std::uint64_t step = 0; step < 12; ++step) {
    const Routing routing = before.prepare(lengths(step));
    before.observe(routing, busy(routing.plan(), speeds)[at(group.rank())]);
  }
  options.speed_estimate = before.speed_estimate();
  const Balancer after(group, options);
  for (int r = 0; r < group.size(); ++r) {
    EXPECT_NEAR(after.speed_estimate()[at(r)], before.speed_estimate()[at(r)], 1e-5);
  }
  const double best = largest(busy(knowing(speeds).prepare(lengths(1)).plan(), speeds));
  EXPECT_LT(largest(busy(after.prepare(lengths(1)).plan(), speeds)), 1.01 * best);

  options.speed_estimate.assign(at(group.size()) + 1, 1.0);
  EXPECT_TRUE(contains(error_of([&] { Balancer(group, options); }), "speed estimate for"));
  options.speed_estimate.assign(at(group.size()), std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(contains(error_of([&] { Balancer(group, options); }), "estimate of rank 0 is nan"));
}

TEST_F(Adapt, StartsFromTheMachinesSpeedsAndKeepsTheirMean) {
  BalancerOptions options = adapting();
  for (int r = 0; r < group.size(); ++r) options.machine.speeds.push_back(2 + r);
  const Plan adapted = Balancer(group, options).prepare(lengths(1)).plan();
  const Plan known = knowing(options.machine.speeds).prepare(lengths(1)).plan();
  EXPECT_NEAR(adapted.report().ideal_seconds / known.report().ideal_seconds, 1, 1e-4);
  EXPECT_NEAR(
      largest(busy(adapted, options.machine.speeds)) / largest(busy(known, options.machine.speeds)),
      1, 1e-2);
}

TEST_F(Adapt, IsOffByDefaultAndRefusesNonsense) {
  std::vector<double> speeds = ones();
  speeds.back() = 0.25;
  const Balancer balance = knowing({});
  const std::uint64_t hash = balance.prepare(lengths(3)).plan().hash();
  for (int step = 0; step < 8; ++step) {
    const Routing routing = balance.prepare(lengths(3));
    EXPECT_EQ(routing.plan().hash(), hash);
    balance.observe(routing, busy(routing.plan(), speeds)[at(group.rank())]);
  }
  const Routing routing = balance.prepare(lengths(3));
  EXPECT_TRUE(contains(error_of([&] { balance.observe(routing, -1); }), "-1 busy seconds"));
  EXPECT_TRUE(contains(error_of([&] { balance.observe(routing, std::nan("")); }), "nan"));
}

}  // namespace
}  // namespace knapformer
