// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Training steps of an MMDiT: what they compute, allocate and hold.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <knapformer/train/trainer.hpp>
#include <optional>
#include <vector>

#include "support/mpi_test.hpp"
#include "support/tools_record.hpp"

namespace knapformer {
namespace {

using namespace test;  // NOLINT: a test file

using Lengths = std::vector<std::int64_t>;

constexpr std::int64_t kParts = 2;

MMDiTConfig model_of(std::int64_t d_model, bool checkpoint = true) {
  MMDiTConfig config;
  config.double_blocks = 2;
  config.single_blocks = 3;
  config.d_model = d_model;
  config.heads = 8;
  config.d_mlp = 4 * d_model;
  config.d_patch = 12;
  config.d_text = 20;
  config.d_time = 8;
  config.rope_axes = {0, config.d_head() / 2, config.d_head() / 2};
  config.checkpoint = checkpoint;
  return config;
}

/// Later ranks hold much more, so that bags split sequences; rank 1 holds nothing.
Lengths lengths_of(int rank) {
  if (rank == 1) return {};
  return {40 + 90 * rank, 1, 0, 30, 17};
}

class MMDiTStep : public ::testing::Test {
 protected:
  template <class T>
  using MMDiTTrainer = Trainer<T, MMDiTTask>;

  template <class T>
  MMDiTTrainer<T> trainer(const MMDiTConfig& model, const Communicator& within,
                          std::int64_t micro_batches, bool balance,
                          LossMean mean = LossMean::kTokens) const {
    return {world,
            Balancer(within, {.topology = Topology::parse("elastic"),
                              .cost = CostModel::transformer(model.d_model, 1),
                              .heads = model.heads,
                              .balance = balance,
                              .machine = Machine::without_communication()}),
            model,
            {.seed = 5, .learning_rate = 0.1, .micro_batches = micro_batches, .loss_mean = mean}};
  }
  template <class T>
  std::vector<MMDiTBatch<T>> parts_of(const MMDiTBatch<T>& batch) const {
    std::vector<MMDiTBatch<T>> parts;
    for (std::int64_t i = 0; i < kParts; ++i) parts.push_back(micro_batch(batch, i, kParts));
    return parts;
  }
  template <class T>
  MMDiTBatch<T> batch(const MMDiTConfig& model, const Lengths& lengths, std::int64_t step) const {
    return make_synthetic_mmdit_batch<T>(exec, lengths, model, 7, step, world.rank());
  }
  double sum(double mine) const {
    double all = 0;
    for (const double of : world.all_gather(std::span<const double>(&mine, 1))) all += of;
    return all;
  }

  /// What a step says that it holds beside what tools see and what was predicted.
  template <class T>
  void check_memory() const {
    for (const bool checkpoint : {true, false}) {
      SCOPED_TRACE(checkpoint);
      const MMDiTConfig model = model_of(64, checkpoint);
      const Communicator own = world.split(world.size());
      const auto parts = parts_of(batch<T>(model, {300 + 500 * world.rank(), 80, 64, 90}, 0));
      const ToolsRecord record;
      auto of = trainer<T>(model, own, kParts, true);
      const StepOutcome outcome = of.step(exec, std::span<const MMDiTBatch<T>>(parts));
      const std::int64_t ours = record.live_bytes();
      EXPECT_GE(ours, outcome.memory.total());
      EXPECT_LE(ours, outcome.memory.total() + 8 * std::ssize(record.live));

      MemoryUse predicted;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        predicted = largest(
            predicted, MMDiTTask<T>::predicted_memory(exec, model, parts[i], outcome.routings[i]));
      }
      EXPECT_EQ(predicted.parameters, outcome.memory.parameters);
      EXPECT_EQ(predicted.gradients, outcome.memory.gradients);
      const auto ratio = [](std::int64_t a, std::int64_t b) {
        return static_cast<double>(a) / static_cast<double>(b);
      };
      EXPECT_NEAR(ratio(predicted.activations, outcome.memory.activations), 1, 0.02);
      EXPECT_NEAR(ratio(predicted.exchange + predicted.scratch,
                        outcome.memory.exchange + outcome.memory.scratch),
                  1, 0.05);
      EXPECT_NEAR(ratio(predicted.total(), ours), 1, 0.02);
    }
  }

  const Communicator world = test::world();
  const Communicator group = world.split(world.size());
  const Device exec;
};

TEST_F(MMDiTStep, MicroBatchesAddUpToOneBatchBalancedOrNot) {
  const MMDiTConfig model = model_of(32);
  for (const LossMean mean : {LossMean::kTokens, LossMean::kSamples}) {
    auto whole = trainer<double>(model, group, 1, false, mean);
    auto cut = trainer<double>(model, group, kParts, true, mean);
    double last = 0;
    for (std::int64_t step = 0; step < 3; ++step) {
      const auto all = batch<double>(model, lengths_of(world.rank()), step);
      const auto parts = parts_of(all);
      const double loss = sum(whole.step(exec, all).loss);
      const StepOutcome outcome = cut.step(exec, std::span<const MMDiTBatch<double>>(parts));
      EXPECT_NE(loss, last);
      EXPECT_NEAR(sum(outcome.loss), loss, 1e-12 * loss);
      const auto a =
          Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, whole.model().gradients());
      const auto b =
          Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, cut.model().gradients());
      double largest = 0, difference = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        largest = std::max(largest, std::abs(a(i)));
        difference = std::max(difference, std::abs(a(i) - b(i)));
      }
      EXPECT_GT(largest, 0);
      EXPECT_LT(difference, 1e-11 * largest) << step;
      last = loss;
    }
  }
}

/// As many FLOPs on all ranks together, wherever tokens are: but for the modulation of further
/// chunks.
TEST_F(MMDiTStep, CountsItsWork) {
  const MMDiTConfig model = model_of(64);
  const auto all = batch<float>(model, lengths_of(world.rank()), 0);
  double flops[2];
  for (const bool balance : {false, true}) {
    auto of = trainer<float>(model, group, 1, balance);
    const StepOutcome outcome = of.step(exec, all);
    flops[balance] = sum(outcome.flops);
    const auto sent = static_cast<double>(outcome.bytes_routed + outcome.bytes_exchanged);
    EXPECT_EQ(sum(sent) > 0, balance && world.size() > 1);
    EXPECT_GT(outcome.phases[Phase::kRoute], 0);
  }
  EXPECT_NEAR(flops[1] / flops[0], 1, 0.05);
}

TEST_F(MMDiTStep, AllocatesNothingInKokkosSpacesOnceTheSizesHaveBeenThere) {
  const MMDiTConfig model = model_of(32);
  const auto large = parts_of(batch<float>(model, {60 + 100 * world.rank(), 40, 30}, 0));
  const auto small = parts_of(batch<float>(model, {7, 0, 20}, 1));
  auto of = trainer<float>(model, group, kParts, true);
  std::optional<StepOutcome> outcome;
  const auto step = [&](const auto& now, const auto& next) {
    outcome = of.step(exec, std::span<const MMDiTBatch<float>>(now),
                      std::span<const std::int64_t>(next.front().lengths));
  };
  for (int i = 0; i < 3; ++i) step(large, large);
  step(large, small);
  step(small, large);
  const ToolsRecord record;
  step(large, large);
  step(large, small);
  step(small, small);
  step(small, large);
  step(large, large);
  for (const auto& [label, times] : record.allocations) ADD_FAILURE() << times << " of " << label;
  EXPECT_FALSE(record.kernels.empty());
  for (const auto& [label, paths] : record.kernels) {
    EXPECT_TRUE(label.starts_with("KnapFormer::")) << label;
  }
}

TEST_F(MMDiTStep, SaysHowMuchMemoryItHoldsAndWillHold) { check_memory<float>(); }
TEST_F(MMDiTStep, SaysHowMuchMemoryItHoldsAndWillHoldOnBfloat16) { check_memory<bfloat16>(); }

}  // namespace
}  // namespace knapformer
