// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <gtest/gtest.h>

#include <algorithm>
#include <knapformer/train/trainer.hpp>
#include <optional>
#include <vector>

#include "support/count_collectives.hpp"
#include "support/mpi_test.hpp"

namespace knapformer {
namespace {

using namespace test;  // NOLINT: a test file

using Lengths = std::vector<std::int64_t>;
using Next = std::optional<std::span<const std::int64_t>>;

constexpr TransformerConfig kModel{.layers = 2, .d_model = 16, .heads = 8, .d_ffn = 24};

class TrainerTest : public ::testing::Test {
 protected:
  BalancerOptions options(const std::string& topology) const {
    return {.topology = Topology::parse(topology),
            .cost = CostModel::transformer(kModel.d_model, 1),
            .heads = kModel.heads,
            .machine = Machine::without_communication()};
  }
  Trainer<double> trainer(const Balancer& balancer) const {
    return Trainer<double>(world, balancer, kModel, {.seed = 5, .learning_rate = 0.1});
  }
  Batch<double> batch(std::int64_t step) const {
    return make_synthetic_batch<double>(exec, lengths(step), kModel.d_model, 1, step, world.rank());
  }
  Lengths lengths(std::int64_t step) const {
    Lengths out;
    for (std::int64_t i = 0; i < (world.rank() + step) % 3; ++i) {
      out.push_back(5 + 7 * world.rank() + 3 * i + step);
    }
    return out;
  }
  /// The same sequences in all ranks' bags.
  std::string one_bag() const { return join("g", world.size(), "n1"); }
  std::string single_ranks() const { return join("g1n", world.size()); }

  template <class T>
  std::vector<T> gathered(T mine) const {
    return world.all_gather(std::span<const T>(&mine, 1));
  }

  const Communicator world = test::world();
  const Communicator group = world.split(world.size());
  const Device exec;
  const int last = world.size() - 1;
  const bool culprit = world.rank() == last;
};

TEST_F(TrainerTest, PlanningAheadChangesNothingInTheModel) {
  for (const bool same_communicator : {false, true}) {
    const Balancer balancer(same_communicator ? world : group, options(one_bag()));
    Trainer<double> ahead = trainer(balancer), at_once = trainer(balancer);
    for (std::int64_t step = 0; step < 5; ++step) {
      // Neither in the last step, nor in one in between.
      const Lengths next = lengths(step + 1);
      const StepOutcome a = ahead.step(exec, batch(step), step % 3 == 1 ? Next() : Next(next));
      const StepOutcome b = at_once.step(exec, batch(step));
      EXPECT_EQ(a.loss, b.loss);
      EXPECT_EQ(a.routings.front().plan().hash(), b.routings.front().plan().hash());
      if (step > 0) {
        EXPECT_GT(a.hidden_plan, 0) << step;
      }
      for (const double seconds : a.phases.seconds) EXPECT_GE(seconds, 0) << step;
    }
    const auto host = [](const Trainer<double>& of) {
      return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, of.model().parameters());
    };
    const auto a = host(ahead), b = host(at_once);
    EXPECT_TRUE(std::equal(a.data(), a.data() + a.size(), b.data()));
  }
}

TEST_F(TrainerTest, AStepThatWasPlannedAheadTakesFewCollectives) {
  const Balancer balancer(group, options(single_ranks()));
  Trainer<double> of = trainer(balancer);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch<double> now = batch(step);
    const Lengths next = lengths(step + 1);
    const int before = collective_calls;
    of.step(exec, now, next);
    // Metadata; tokens of the world; size and sum of the gradients. The first plans for itself too.
    EXPECT_EQ(collective_calls - before, step == 0 ? 5 : 4) << step;
  }
}

TEST_F(TrainerTest, OtherLengthsThanAnnouncedAreRefusedEverywhere) {
  const auto message = [&](const Lengths& announced) {
    const Communicator fresh = test::world();  // an error is the end of a world
    Trainer<double> of(fresh, Balancer(fresh.split(fresh.size()), options(single_ranks())), kModel,
                       {.seed = 5});
    const Batch<double> next =
        make_synthetic_batch<double>(exec, Lengths{4, 6}, kModel.d_model, 1, 1, world.rank());
    return error_of([&] {  // a rank may hear of it before it is through with its first step
      of.step(exec, batch(0), culprit ? announced : next.lengths);
      of.step(exec, next);
    });
  };
  const std::string rank = join("rank ", last, ": trainer: ");
  EXPECT_EQ(message({4, 6, 7}),
            rank + "a step begins with 2 sequences, but the step before was told of 3");
  EXPECT_EQ(message({4, 5}),
            rank + "sequence 1 of a step has 6 tokens, but the step before was told of 5");
}

TEST_F(TrainerTest, LengthsMustBeAnnouncedOnAllRanksOrOnNone) {
  if (world.size() == 1) return;
  Trainer<double> of = trainer(Balancer(group, options(single_ranks())));
  const Lengths next{4, 6};
  const std::string message =
      error_of([&] { of.step(exec, batch(0), culprit ? Next(next) : Next()); });
  EXPECT_EQ(message, join("trainer: rank ", last,
                          " was told the lengths of the next step and rank "
                          "0 was not; tell them on all ranks or on none"));
}

TEST_F(TrainerTest, BadLengthsOfTheNextStepAreRefusedEverywhere) {
  Trainer<double> of = trainer(Balancer(group, options(single_ranks())));
  Batch<double> next = batch(1);
  next.lengths = Lengths{3, culprit ? -8 : 8};
  EXPECT_EQ(error_of([&] {
              of.step(exec, batch(0), next.lengths);
              of.step(exec, next);
            }),
            join("rank ", last, ": the length of sequence 1 is -8; lengths are not negative"));
}

/// Rank 0 computes 10 times slower than the others, which share its sequences and wait for it
/// around attention, in every layer.
TEST_F(TrainerTest, WaitingForASlowRankIsNotBeingBusy) {
  if (world.size() == 1) return;
  const Balancer balancer(group, options(one_bag()));
  Trainer<double> of = trainer(balancer);
  const Batch<double> b = make_synthetic_batch<double>(exec, Lengths{160}, kModel.d_model, 1, 0, 0);
  double busy = 0;
  for (int step = 0; step < 2; ++step) {
    busy += of.step(exec, b, b.lengths,
                    {.kind = ClockKind::kCpu, .slowdown = world.rank() == 0 ? 10.0 : 1.0})
                .phases.busy();
  }
  const std::vector<double> all = gathered(busy);
  for (std::size_t r = 1; r < all.size(); ++r) EXPECT_LT(all[r], 0.4 * all[0]) << r;
}

TEST_F(TrainerTest, ABalancerThatAdaptsLearnsWhoIsSlow) {
  if (world.size() == 1) return;
  for (const bool adapts : {false, true}) {
    BalancerOptions adapting = options(single_ranks());
    adapting.adapt_to_speed = adapts;
    const Balancer balancer(group, adapting);
    Trainer<double> of = trainer(balancer);
    const Batch<double> b =
        make_synthetic_batch<double>(exec, Lengths(16, 12), kModel.d_model, 1, 0, world.rank());
    double work = 0, speed = 0;
    for (int step = 0; step < 8; ++step) {
      const StepOutcome outcome =
          of.step(exec, b, b.lengths, {.kind = ClockKind::kCpu, .slowdown = culprit ? 6.0 : 1.0});
      work = outcome.routings.front().plan().report().work_after[static_cast<std::size_t>(
          world.rank())];
      speed = outcome.speed_estimate;
    }
    const std::vector<double> works = gathered(work), speeds = gathered(speed);
    for (int r = 0; r < last; ++r) {
      const auto at = static_cast<std::size_t>(r);
      if (adapts) {
        EXPECT_LT(works.back(), 0.5 * works[at]) << r;
        EXPECT_LT(speeds.back(), 0.5 * speeds[at]) << r;
      } else {
        EXPECT_EQ(works.back(), works[at]) << r;
        EXPECT_EQ(speeds[at], 1) << r;
      }
    }
  }
}

}  // namespace
}  // namespace knapformer
