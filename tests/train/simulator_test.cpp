// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <gtest/gtest.h>

#include <cmath>
#include <knapformer/train/calibration.hpp>
#include <knapformer/train/simulator.hpp>
#include <knapformer/train/synthetic.hpp>
#include <knapformer/train/trainer.hpp>
#include <memory>
#include <vector>

#include "support/mpi_test.hpp"

namespace knapformer {
namespace {

// Uneven on purpose: later ranks hold more and longer sequences, rank 0 holds none in odd steps.
class Uneven : public DataSource {
 public:
  std::vector<std::int64_t> lengths(std::int64_t step, std::int64_t rank) const override {
    std::vector<std::int64_t> out;
    if (rank == 0 && step % 2 == 1) return out;
    for (std::int64_t i = 0; i <= rank; ++i) out.push_back(7 + 5 * rank + 3 * i + step);
    return out;
  }
  std::string describe() const override { return "uneven"; }
};

constexpr TransformerConfig kModel{.layers = 2, .d_model = 16, .heads = 4, .d_ffn = 24};

SimulationOptions small(std::int64_t ranks_of_a_group) {
  return {.model = kModel,
          .topology = Topology::parse("g1n" + std::to_string(ranks_of_a_group)),
          .gamma = 1,
          .steps = 4,
          .warmup = 1,
          .seed = 3,
          .learning_rate = 0.1};
}

TEST(Simulate, TrainsTheSameModelWithAndWithoutBalancing) {
  const Communicator world(MPI_COMM_WORLD);
  const Device exec;
  const Simulation simulation = simulate<double>(world, exec, Uneven(), small(world.size()));
  ASSERT_EQ(simulation.unbalanced.size(), 4u);
  ASSERT_EQ(simulation.balanced.size(), 4u);
  EXPECT_LT(simulation.loss_difference(), 1e-12);
  EXPECT_NE(simulation.unbalanced.front().loss, simulation.unbalanced.back().loss);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(simulation.balanced[i].index, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(simulation.unbalanced[i].lengths, simulation.balanced[i].lengths);
    EXPECT_EQ(simulation.unbalanced[i].groups.front().moved_tokens, 0);
    for (const TraceRank& rank : simulation.unbalanced[i].ranks) {
      EXPECT_GT(rank.hidden_plan_seconds, 0);
      EXPECT_EQ(rank.hidden_exchange_seconds, 0) << "nothing travels";
      EXPECT_EQ(rank.speed_estimate, 1);
      EXPECT_EQ(rank.busy_seconds, rank.plan_seconds + rank.route_seconds + rank.exchange_seconds +
                                       rank.compute_seconds);
    }
  }
  EXPECT_EQ(simulation.unbalanced.front().ranks.size(), static_cast<std::size_t>(world.size()));
}

TEST(Simulate, TrainsAModelWithSharedKeys) {
  const Communicator world(MPI_COMM_WORLD);
  SimulationOptions options = small(world.size());
  TransformerConfig model = kModel;
  model.kv_heads = 2;
  options.model = model;
  for (const Topology& topology :
       {Topology::elastic(), Topology::parse(test::join("g", world.size(), "n1"))}) {
    options.topology = topology;
    EXPECT_LT(simulate<double>(world, Device(), Uneven(), options).loss_difference(), 1e-12);
  }
}

TEST(Simulate, TrainsAnMMDiTWithEveryPlacementAlike) {
  const Communicator world(MPI_COMM_WORLD);
  SimulationOptions options = small(world.size());
  MMDiTConfig model = mmdit_preset("tiny");
  model.double_blocks = model.single_blocks = 1;
  model.d_model = 32;
  model.heads = 4;
  model.d_mlp = 40;
  model.d_text = 24;
  model.rope_axes = {0, 4, 4};
  options.model = model;
  const Placement placements[] = {
      {}, {Topology::elastic()}, {Topology::parse(test::join("g", world.size(), "n1"))}};
  std::int64_t seen = 0;
  const Comparison comparison = compare<double>(world, Device(), Uneven(), options, placements,
                                                [&](const TraceStep&) { ++seen; });
  EXPECT_EQ(seen, 3 * options.steps);
  ASSERT_EQ(comparison.steps.size(), 3u);
  EXPECT_GT(comparison.flops, 0);
  for (const std::vector<TraceStep>& steps : comparison.steps) {
    ASSERT_EQ(std::ssize(steps), options.steps);
    EXPECT_LT(loss_difference(comparison.steps.front(), steps), 1e-12);
    EXPECT_EQ(steps.front().balanced, &steps != &comparison.steps.front());
  }
  EXPECT_NE(comparison.steps[0].front().loss, comparison.steps[0].back().loss);
}

TEST(Simulate, BalancesWithinEachGroupOfALargerWorld) {
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() % 2 != 0) {
    EXPECT_THROW(simulate<float>(world, Device(), Uneven(), small(world.size() + 1)), Error);
    return;
  }
  const Simulation simulation = simulate<double>(world, Device(), Uneven(), small(2));
  EXPECT_LT(simulation.loss_difference(), 1e-12);
  for (const TraceStep& step : simulation.balanced) {
    ASSERT_EQ(step.groups.size(), static_cast<std::size_t>(world.size() / 2));
    for (std::size_t g = 0; g < step.groups.size(); ++g) {
      const std::int64_t before =
          step.ranks[2 * g].tokens_before + step.ranks[2 * g + 1].tokens_before;
      const std::int64_t after =
          step.ranks[2 * g].tokens_after + step.ranks[2 * g + 1].tokens_after;
      EXPECT_EQ(before, after);
      EXPECT_EQ(step.groups[g].total_tokens, before);
    }
  }
}

TEST(Simulate, ElasticGroupsOfTheSizeAskedForAndOfAllRanks) {
  const Communicator world(MPI_COMM_WORLD);
  for (const std::int64_t group_size : {std::int64_t{1}, std::int64_t{0}}) {
    SimulationOptions options = small(1);
    options.topology = Topology::elastic();
    options.group_size = group_size;
    for (int r = 0; r < world.size(); ++r) options.machine.speeds.push_back(1 + r);
    const Simulation simulation = simulate<double>(world, Device(), Uneven(), options);
    EXPECT_LT(simulation.loss_difference(), 1e-12);
    EXPECT_EQ(simulation.balanced.front().groups.size(),
              static_cast<std::size_t>(group_size == 1 ? world.size() : 1));
  }
  SimulationOptions options = small(world.size());
  options.machine.speeds.assign(static_cast<std::size_t>(world.size()) + 1, 1);
  EXPECT_THROW(simulate<double>(world, Device(), Uneven(), options), Error);
}

TEST(Simulate, SlowsRanksAndAdaptsToThem) {
  const Communicator world(MPI_COMM_WORLD);
  SimulationOptions options = small(world.size());
  options.adapt_to_speed = true;
  options.slowdowns.assign(static_cast<std::size_t>(world.size()), 1);
  options.slowdowns.back() = 30;
  options.steps = 6;
  const Simulation simulation = simulate<double>(world, Device(), Uneven(), options);
  EXPECT_LT(simulation.loss_difference(), 1e-12);
  for (const TraceStep& step : simulation.unbalanced) {
    for (const TraceRank& rank : step.ranks) EXPECT_EQ(rank.speed_estimate, 1);
  }
  double sum = 0;
  for (const TraceRank& rank : simulation.balanced.back().ranks) sum += rank.speed_estimate;
  EXPECT_NEAR(sum, world.size(), 1e-3);
  if (world.size() > 1) {
    EXPECT_LT(simulation.balanced.back().ranks.back().speed_estimate, 0.8);
  }

  options.slowdowns.front() = 0.5;
  EXPECT_TRUE(
      test::contains(test::error_of([&] { simulate<double>(world, Device(), Uneven(), options); }),
                     "slowdown of rank 0 is 0.5"));
  options.slowdowns.emplace_back(1);
  EXPECT_THROW(simulate<double>(world, Device(), Uneven(), options), Error);
}

TEST(Simulate, EveryRankSeesEveryStepAlike) {
  const Communicator world(MPI_COMM_WORLD);
  std::vector<double> seen;
  simulate<float>(world, Device(), Uneven(), small(world.size()), [&](const TraceStep& step) {
    seen.push_back(step.balanced ? 1 : 0);
    seen.push_back(step.seconds);
    seen.push_back(step.loss);
  });
  ASSERT_EQ(seen.size(), 3u * 2 * 4);
  const std::vector<double> all = world.all_gather(std::span<const double>(seen));
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], seen[i % seen.size()]);
}

TEST(Trainer, ARankThatFailsStopsAllGroups) {
  const Communicator world = test::world();
  const int ranks = world.size() % 2 == 0 ? 2 : 1;
  const SimulationOptions options = small(ranks);
  Trainer<double> trainer(world,
                          Balancer(world.split(ranks), {.topology = options.topology, .heads = 4}),
                          kModel, {.seed = 1});
  Batch<double> batch =
      make_synthetic_batch<double>(Device(), std::vector<std::int64_t>{3}, 16, 1, 0, world.rank());
  if (world.rank() == world.size() - 1) batch.lengths = {-7};
  MPI_Barrier(MPI_COMM_WORLD);  // or the failure finds ranks that still make their trainers
  // In the same words everywhere, with the rank's number in the world.
  EXPECT_EQ(test::error_of([&] { trainer.step(Device(), batch); }),
            test::join("rank ", world.size() - 1,
                       ": the length of sequence 0 is -7; lengths are not negative"));
}

TEST(Calibrate, FindsRatesThatAllRanksAgreeOn) {
  const Communicator world(MPI_COMM_WORLD);
  const Calibration found = calibrate<float>(world, Device(), small(1).model, 256);
  EXPECT_GT(found.gemm_flops, 0);
  EXPECT_GT(found.gamma, 0);
  const double mine[2] = {found.gemm_flops, found.gamma};
  const std::vector<double> all = world.all_gather(std::span<const double>(mine, 2));
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], mine[i % 2]);
}

TEST(SyntheticBatch, IsTheSameTwiceAndDiffersBetweenSteps) {
  const std::vector<std::int64_t> lengths = {3, 0, 2};
  const auto host = [&](std::int64_t step, auto member) {
    const Batch<double> batch = make_synthetic_batch<double>(Device(), lengths, 4, 9, step, 1);
    return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, batch.*member);
  };
  const auto first = host(0, &Batch<double>::tokens), again = host(0, &Batch<double>::tokens);
  const auto other = host(1, &Batch<double>::tokens), target = host(0, &Batch<double>::targets);
  ASSERT_EQ(first.extent(0), 5u);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first.data()[i], again.data()[i]);
    EXPECT_NE(first.data()[i], other.data()[i]);
    EXPECT_NE(first.data()[i], target.data()[i]);
    EXPECT_LT(std::abs(first.data()[i]), 1.0 + 1e-15);
  }
  const auto positions = host(0, &Batch<double>::positions);
  const int expected[] = {0, 1, 2, 0, 1};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(positions(i, 0), expected[i]);
}

TraceStep step_of(double seconds, double busy_first, double busy_second) {
  TraceStep step{.seconds = seconds};
  step.groups.push_back({.max_over_mean_after = 1.5,
                         .max_over_min_after = 3,
                         .moved_tokens = 25,
                         .total_tokens = 100});
  step.ranks.resize(2);
  step.ranks[0].busy_seconds = busy_first;
  step.ranks[1].busy_seconds = busy_second;
  step.ranks[1].wait_seconds = 2;
  step.ranks[0].hidden_plan_seconds = 6;
  step.ranks[1].hidden_exchange_seconds = 5;
  return step;
}

TEST(Summarise, AddsUpStepsAndRanks) {
  const PlacementSummary s = summarise({step_of(4, 4, 2), step_of(2, 1, 2), step_of(9, 6, 0)});
  EXPECT_DOUBLE_EQ(s.seconds, 15);
  EXPECT_DOUBLE_EQ(s.median_seconds, 4);
  EXPECT_DOUBLE_EQ(summarise({step_of(4, 4, 2), step_of(2, 1, 2)}).median_seconds, 3);
  EXPECT_DOUBLE_EQ(s.busy_max, 12);
  EXPECT_DOUBLE_EQ(s.busy_mean, 7.5);
  EXPECT_DOUBLE_EQ(s.tokens, 300);
  EXPECT_DOUBLE_EQ(s.moved_share, 0.25);
  EXPECT_DOUBLE_EQ(s.work_max_over_mean, 1.5);
  EXPECT_DOUBLE_EQ(s.phase_seconds[static_cast<std::size_t>(Phase::kWait)], 1);
  EXPECT_DOUBLE_EQ(s.hidden_plan_seconds, 3);
  EXPECT_DOUBLE_EQ(s.hidden_exchange_seconds, 2.5);

  Simulation simulation;
  simulation.unbalanced = {step_of(4, 4, 2)};
  simulation.balanced = {step_of(2, 3, 3)};
  EXPECT_DOUBLE_EQ(simulation.speedup(), 2);
  EXPECT_DOUBLE_EQ(simulation.bound(), 4.0 / 3);
  EXPECT_EQ(simulation.loss_difference(), 0);
  simulation.balanced[0].loss = std::nan("");
  EXPECT_TRUE(std::isnan(simulation.loss_difference()))
      << "a loss that is no number is no agreement";
}

}  // namespace
}  // namespace knapformer
