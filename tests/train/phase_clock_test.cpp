// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What a rank waits for others is taken out of the phase it happens in. The waits are made up, and
// longer than the test could take: work comes out negative then, by just as much.

#include <gtest/gtest.h>

#include <knapformer/train/phase_clock.hpp>

namespace knapformer {
namespace {

constexpr double kLong = 1e6;

class PhaseClockTest : public ::testing::TestWithParam<ClockKind> {
 protected:
  PhaseClock clock(double slowdown = 1) {
    return {exec, {.kind = GetParam(), .slowdown = slowdown}, [this] { return waited; }};
  }
  void wait() { waited += {.elapsed = kLong, .cpu = kLong * exec.concurrency()}; }
  /// Until this clock has seen `seconds` go by.
  void work(const PhaseClock& with, double seconds) const {
    const Seconds start = process_seconds();
    while (with.of_kind(process_seconds() - start) < seconds) continue;
  }

  const Device exec;
  Seconds waited = {.elapsed = 7, .cpu = 8};
};

TEST_P(PhaseClockTest, WaitsAreNoWork) {
  for (const Phase phase : {Phase::kPlan, Phase::kRoute, Phase::kExchange, Phase::kCompute}) {
    PhaseClock c = clock();
    c.enter(phase);
    wait();
    c.enter(Phase::kPlan);
    c.stop();
    EXPECT_EQ(c.times()[Phase::kWait], kLong);
    EXPECT_NEAR(c.times().busy(), -kLong, 1000);
  }
}

TEST_P(PhaseClockTest, WaitingAndReducingAreCountedAsTheyAre) {
  PhaseClock c = clock();
  for (const Phase phase : {Phase::kWait, Phase::kReduce}) {
    c.enter(phase);
    work(c, 1e-3);
    wait();
    c.stop();
    EXPECT_GE(c.times()[phase], 1e-3);
    EXPECT_LT(c.times()[phase], 1000);
  }
  EXPECT_EQ(c.times().busy(), 0);
}

TEST_P(PhaseClockTest, AddsUpWhatBelongsTogether) {
  PhaseClock c = clock();
  for (int i = 0; i < 3; ++i) {
    c.enter(Phase::kRoute);
    work(c, 1e-3);
    c.enter(Phase::kExchange);
  }
  c.stop();
  const double before = c.times()[Phase::kExchange];
  work(c, 1e-3);
  c.stop();
  EXPECT_GE(c.times()[Phase::kRoute], 3e-3);
  EXPECT_EQ(c.times()[Phase::kExchange], before) << "a clock that is stopped";
}

TEST_P(PhaseClockTest, ASlowRankReallyTakesItsTimeToCompute) {
  PhaseClock c = clock(50);
  const Seconds start = process_seconds();
  c.enter(Phase::kCompute);
  work(c, 1e-3);
  c.stop();
  EXPECT_GE(c.times()[Phase::kCompute], 50e-3);
  EXPECT_GE(c.of_kind(process_seconds() - start), 50e-3);
}

TEST_P(PhaseClockTest, ASlowRankIsSlowAtNothingElse) {
  PhaseClock c = clock(10'000);
  for (const Phase phase : {Phase::kPlan, Phase::kRoute, Phase::kExchange, Phase::kWait}) {
    c.enter(phase);
    work(c, 1e-3);
    c.stop();
    EXPECT_LT(c.times()[phase], 5);
  }
}

INSTANTIATE_TEST_SUITE_P(Clocks, PhaseClockTest,
                         ::testing::Values(ClockKind::kWall, ClockKind::kCpu));

}  // namespace
}  // namespace knapformer
