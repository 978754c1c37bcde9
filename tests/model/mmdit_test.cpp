// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/plan/error.hpp>
#include <model/mmdit_support.hpp>
#include <support/tools_record.hpp>

namespace knapformer::test {
namespace {

/// A small model after a forward and a backward pass.
struct Step {
  explicit Step(const std::vector<std::int64_t>& lengths)
      : batch(config, lengths, 3), routing(home_routing(lengths, config.heads)) {
    randomize(model.parameters(), 4);
    loss();
    const auto d = model.backward(exec, routing, batch.d_out, saved);
    d_patches = to_host(d.patches);
    d_text = to_host(d.text);
  }
  long double loss() {
    return dot(model.forward(exec, routing, batch.input, saved), to_host(batch.d_out));
  }
  /// See slope_error.
  double error(const auto& variable, const std::vector<double>& gradient) {
    return slope_error(
        variable, gradient, [this] { return loss(); }, random);
  }

  MMDiTConfig config = [] {
    MMDiTConfig small = small_mmdit(2);
    small.double_blocks = small.single_blocks = 1;
    return small;
  }();
  MMDiTBatch<> batch;
  Routing routing;
  MMDiT<double> model{config, 1};
  MMDiTSaved<double> saved;
  std::vector<double> d_patches, d_text;
  Device exec;
  std::mt19937_64 random{5};
};

TEST(MMDiT, GradientsAreThoseOfTheOutput) {
  Step step({17, 0, 1, 2, 17, 1});
  EXPECT_LE(step.error(step.batch.input.patches, step.d_patches), 1e-8);
  EXPECT_LE(step.error(step.batch.input.text, step.d_text), 1e-8);
  for (const ParameterInfo& info : mmdit_parameters(step.config)) {
    const auto gradient = to_host(step.model.gradient(info.name));
    EXPECT_LE(step.error(step.model.parameter(info.name), gradient), 1e-7) << info.name;
    EXPECT_NE(std::count(gradient.begin(), gradient.end(), 0.0), info.size()) << info.name;
  }
}

TEST(MMDiT, GradientsOfLongAndShortSequences) {
  Step step({17, 0, 1000, 1, 2});
  EXPECT_LE(step.error(step.batch.input.patches, step.d_patches), 1e-8);
  EXPECT_LE(step.error(step.batch.input.text, step.d_text), 1e-8);
  EXPECT_LE(step.error(step.model.parameters(), to_host(step.model.gradients())), 1e-7);
}

TEST(MMDiT, CheckpointingChangesNothing) {
  const std::vector<std::int64_t> lengths{5, 0, 9};
  const Device exec;
  std::vector<std::vector<double>> outcomes[2];
  for (const bool checkpoint : {false, true}) {
    MMDiTConfig config = small_mmdit(3);
    config.double_blocks = 3;
    config.checkpoint = checkpoint;
    const MMDiTBatch batch(config, lengths, 1);
    const Routing routing = home_routing(lengths, config.heads);
    const MMDiT<double> model(config, 1);
    MMDiTSaved<double> saved;
    auto& outcome = outcomes[checkpoint ? 1 : 0];
    outcome.push_back(to_host(model.forward(exec, routing, batch.input, saved)));
    const auto d = model.backward(exec, routing, batch.d_out, saved);
    outcome.insert(outcome.end(),
                   {to_host(d.patches), to_host(d.text), to_host(model.gradients())});
  }
  EXPECT_EQ(outcomes[0], outcomes[1]);
}

TEST(MMDiT, MemoryIsUsedAgain) {
  const MMDiTConfig config = small_mmdit(3);
  const Device exec;
  const MMDiT<double> model(config, 1);
  MMDiTSaved<double> used;
  for (const std::vector<std::int64_t>& lengths :
       std::vector<std::vector<std::int64_t>>{{30, 2}, {}, {4, 9, 1}}) {
    const MMDiTBatch batch(config, lengths, 1);
    const Routing routing = home_routing(lengths, config.heads);
    MMDiTSaved<double> fresh;
    EXPECT_EQ(to_host(model.forward(exec, routing, batch.input, used)),
              to_host(model.forward(exec, routing, batch.input, fresh)));
    const auto patches = to_host(model.backward(exec, routing, batch.d_out, used).patches);
    EXPECT_EQ(patches, to_host(model.backward(exec, routing, batch.d_out, fresh).patches));
  }
}

TEST(MMDiT, AllocatesNothingInKokkosSpacesOnceTheSizesHaveBeenThere) {
  const MMDiTConfig config = small_mmdit(3);
  const Device exec;
  const MMDiT<double> model(config, 1);
  MMDiTSaved<double> saved;
  const std::vector<std::int64_t> many{30, 2}, few{4, 9, 1};
  const MMDiTBatch large(config, many, 1), small(config, few, 1);
  const Routing large_routing = home_routing(many, config.heads),
                small_routing = home_routing(few, config.heads);
  const auto step = [&](const MMDiTBatch<>& batch, const Routing& routing) {
    model.forward(exec, routing, batch.input, saved);
    model.backward(exec, routing, batch.d_out, saved);
  };
  for (int i = 0; i < 2; ++i) {
    step(large, large_routing);
    step(small, small_routing);
  }
  const ToolsRecord record;
  step(large, large_routing);
  step(small, small_routing);
  step(large, large_routing);
  for (const auto& [label, times] : record.allocations) ADD_FAILURE() << times << " of " << label;
  EXPECT_FALSE(record.kernels.empty());
}

TEST(MMDiT, PresetsAreModels) {
  for (const char* name : {"tiny", "small", "base", "large", "flux"}) {
    EXPECT_NO_THROW(check(mmdit_preset(name))) << name;
  }
  const MMDiTConfig flux = mmdit_preset("flux");
  EXPECT_EQ(flux.double_blocks, 19);
  EXPECT_EQ(flux.single_blocks, 38);
  EXPECT_EQ(flux.d_head(), 128);
  const auto size = static_cast<double>(total_size(mmdit_parameters(flux)));
  EXPECT_NEAR(size, 11.9e9, 0.1e9);
  EXPECT_THROW(mmdit_preset("huge"), Error);
}

TEST(MMDiT, RefusesWhatItCannotBe) {
  const auto refuses = [](auto change) {
    MMDiTConfig config = small_mmdit(2);
    change(config);
    EXPECT_THROW(check(config), Error);
    EXPECT_THROW(MMDiT<float>(config, 1), Error);
  };
  EXPECT_NO_THROW(check(small_mmdit(2)));
  refuses([](auto& c) { c.double_blocks = -1; });
  refuses([](auto& c) { c.heads = 0; });
  refuses([](auto& c) { c.heads = 3; });
  refuses([](auto& c) { c.d_mlp = 0; });
  refuses([](auto& c) { c.d_text = -2; });
  refuses([](auto& c) { c.d_time = 5; });
  refuses([](auto& c) { c.rope_axes = {4, 4, 4}; });
  refuses([](auto& c) { c.rope_axes = {3, 3, 2}; });
  refuses([](auto& c) { c.eps = -1; });
  refuses([](auto& c) { c.rope_base = 0; });
}

TEST(MMDiT, RefusesOtherShapes) {
  const MMDiTConfig config = small_mmdit(2);
  const std::vector<std::int64_t> lengths{4, 6};
  const Device exec;
  const MMDiT<double> model(config, 1);
  MMDiTSaved<double> saved;
  const auto refuses = [&](auto change) {
    MMDiTBatch batch(config, lengths, 1);
    change(batch.input);
    // A routing of its own: one that has failed is of no further use.
    EXPECT_THROW(model.forward(exec, home_routing(lengths, 2), batch.input, saved), Error);
  };
  refuses([](auto& in) { in.times = Vector<double>("KnapFormer::test", 3); });
  refuses([](auto& in) { in.positions = Positions("KnapFormer::test", 9); });
  refuses([](auto& in) { in.modalities = Modalities("KnapFormer::test", 9); });
  refuses([](auto& in) { Kokkos::deep_copy(in.modalities, 2); });
  refuses([](auto& in) { in.text = Matrix<double>("KnapFormer::test", 11, 7); });
  refuses([](auto& in) { in.patches = Matrix<double>("KnapFormer::test", 11, 5); });
  const MMDiTBatch batch(config, lengths, 1);
  EXPECT_THROW(model.forward(exec, home_routing(lengths, 4), batch.input, saved), Error);
  EXPECT_THROW(model.backward(exec, home_routing(lengths, 2), batch.d_out, saved), Error)
      << "without a forward pass";
  EXPECT_THROW(model.parameter("img_in/none"), Error);
}

}  // namespace
}  // namespace knapformer::test
