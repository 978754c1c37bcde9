// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What a step allocates, how much memory it holds, and what it shows to Kokkos Tools.

#include <gtest/gtest.h>

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
using Batches = std::vector<Batch<float>>;

constexpr TransformerConfig kModel{.layers = 3, .d_model = 64, .heads = 8, .d_ffn = 176};

/// Later ranks hold much more, so that bags split sequences.
Lengths lengths_of(int rank, std::int64_t part) { return {300 + 500 * rank, 40 * (part + 1), 64}; }

class Step : public ::testing::Test {
 protected:
  Trainer<float> trainer(std::int64_t micro_batches,
                         const TransformerConfig& model = kModel) const {
    return Trainer<float>(world,
                          Balancer(group, {.topology = Topology::parse("elastic"),
                                           .cost = CostModel::transformer(model.d_model, 1),
                                           .heads = model.plan_heads(),
                                           .machine = Machine::without_communication()}),
                          model, {.micro_batches = micro_batches});
  }
  template <class T = float>
  Batch<T> batch(const Lengths& lengths, std::int64_t d_model = kModel.d_model) const {
    return make_synthetic_batch<T>(exec, lengths, d_model, 1, 0, world.rank());
  }
  Batches batches(std::int64_t count) const {
    Batches all;
    for (std::int64_t i = 0; i < count; ++i) all.push_back(batch(lengths_of(world.rank(), i)));
    return all;
  }

  /// What a step says that it holds beside what tools see and, within these parts of it, what was
  /// predicted.
  template <class T>
  void check_memory(const TransformerConfig& model, const std::vector<Batch<T>>& parts,
                    double tolerance, double exchange_tolerance) const {
    const Communicator own = world.split(world.size());
    const ToolsRecord record;
    Trainer<T> of(world,
                  Balancer(own, {.topology = Topology::parse("elastic"),
                                 .cost = CostModel::transformer(model.d_model, 1),
                                 .heads = model.plan_heads(),
                                 .machine = Machine::without_communication()}),
                  model, {.micro_batches = std::ssize(parts)});
    const StepOutcome outcome = of.step(exec, std::span(parts));
    const std::int64_t ours = record.live_bytes();
    std::string list;
    for (const auto& [data, allocation] : record.live) {
      EXPECT_TRUE(allocation.label.starts_with("KnapFormer::")) << allocation.label;
      list += join(allocation.bytes, " ", allocation.label, "\n");
    }
    // Kokkos rounds each allocation up to 8 bytes.
    EXPECT_GE(ours, outcome.memory.total()) << list;
    EXPECT_LE(ours, outcome.memory.total() + 8 * std::ssize(record.live)) << list;

    MemoryUse predicted;
    for (const Routing& routing : outcome.routings) {
      predicted =
          largest(predicted, predicted_memory(exec, model, sizeof(T), routing.plan(), own.rank()));
    }
    EXPECT_EQ(predicted.parameters, outcome.memory.parameters);
    EXPECT_EQ(predicted.gradients, outcome.memory.gradients);
    EXPECT_EQ(predicted.optimizer, outcome.memory.optimizer);
    const auto ratio = [](std::int64_t a, std::int64_t b) {
      return static_cast<double>(a) / static_cast<double>(b);
    };
    EXPECT_NEAR(ratio(predicted.activations, outcome.memory.activations), 1, tolerance);
    EXPECT_NEAR(ratio(predicted.exchange + predicted.scratch,
                      outcome.memory.exchange + outcome.memory.scratch),
                1, exchange_tolerance);
    EXPECT_NEAR(ratio(predicted.total(), ours), 1, tolerance);
  }

  const Communicator world = test::world();
  const Communicator group = world.split(world.size());
  const Device exec;
};

TEST_F(Step, AllocatesNothingInKokkosSpacesOnceTheSizesHaveBeenThere) {
  const Batches large{batch({60 + 100 * world.rank(), 40}), batch({90, 130 * world.rank()})};
  const Lengths little{7, 0, 30};
  const Batches small{batch(little), batch({})};
  Trainer<float> of = trainer(2);
  std::optional<StepOutcome> outcome;
  const auto step = [&](const Batches& now, const Batches& next) {
    outcome = of.step(exec, std::span(now), std::span<const std::int64_t>(next.front().lengths));
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
}

TEST_F(Step, SaysHowMuchMemoryItHoldsAndWillHold) {
  for (const auto& [checkpoint, kv_heads] : {std::pair(true, 0), {false, 0}, {true, 2}}) {
    SCOPED_TRACE(join("checkpoint ", checkpoint, ", keys of ", kv_heads));
    TransformerConfig model = kModel;
    model.checkpoint = checkpoint;
    model.kv_heads = kv_heads;
    check_memory(model, batches(2), 0.02, 0.05);
  }
}

/// With long ranges, and where those of tokens and those of heads are short and so sent from a
/// second copy.
TEST_F(Step, SaysHowMuchMemoryItHoldsAndWillHoldOnBfloat16) {
  const TransformerConfig model{.layers = 2, .d_model = 256, .heads = 2, .d_ffn = 352};
  check_memory<bfloat16>(model, {batch<bfloat16>({600 + 300 * world.rank()}, model.d_model)}, 0.01,
                         0.01);
  Lengths many;
  for (std::int64_t i = 0; i < 20 + 40 * world.rank(); ++i) many.push_back(10 + i * 7 % 50);
  check_memory<bfloat16>(kModel, {batch<bfloat16>(many)}, 0.01, 0.03);
  const bool is_last = world.rank() + 1 == world.size();
  check_memory<bfloat16>(kModel, {batch<bfloat16>(is_last ? Lengths{200} : Lengths{})}, 0.02, 0.05);
}

TEST_F(Step, ShowsItsPhasesAndKernelsToTools) {
  Trainer<float> of = trainer(2);
  const Batches parts = batches(2);
  const ToolsRecord record;
  of.step(exec, std::span(parts));
  EXPECT_FALSE(record.popped_too_often);
  EXPECT_TRUE(record.open.empty());
  for (const char* name : {"prepare", "route", "reverse_route", "loss"}) {
    EXPECT_TRUE(record.has_region(join("KnapFormer::", name), "KnapFormer::micro_batch")) << name;
  }
  for (const char* name : {"reduce_gradients", "optimizer"}) {
    EXPECT_TRUE(record.has_region(join("KnapFormer::", name), "KnapFormer::step")) << name;
  }
  for (const char* pass : {"forward", "backward"}) {
    for (int block = 0; block < kModel.layers; ++block) {
      const std::string inside =
          join("KnapFormer::Transformer::", pass, "/KnapFormer::block ", block);
      EXPECT_TRUE(record.has_region(join("KnapFormer::block ", block),
                                    join("KnapFormer::Transformer::", pass)));
      for (const char* name : {"pre_attention", "attention", "post_attention"}) {
        EXPECT_TRUE(record.has_region(join("KnapFormer::", name), inside)) << inside << name;
      }
    }
  }
  for (const auto& [label, paths] : record.kernels) {
    EXPECT_TRUE(label.starts_with("KnapFormer::")) << label;
    if (!label.starts_with("KnapFormer::attention")) continue;
    for (const std::string& path : paths) EXPECT_TRUE(path.ends_with("/KnapFormer::attention"));
  }
  for (const std::string& path : record.regions) {
    EXPECT_TRUE(path.starts_with("/KnapFormer::")) << path;
  }
  for (const auto& [label, times] : record.allocations) {
    EXPECT_TRUE(label.starts_with("KnapFormer::")) << label;
  }
}

}  // namespace
}  // namespace knapformer
