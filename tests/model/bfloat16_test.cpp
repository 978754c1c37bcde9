// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Whole models on bfloat16 beside the same on double, which their own tests know to be right.

#include <model/mmdit_support.hpp>

namespace knapformer::test {
namespace {

constexpr double kTolerance = 2e-2;  // in norm

using Results = std::vector<std::pair<std::string, std::vector<double>>>;

void compare(const Results& got, const Results& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(norm_error(got[i].second, expected[i].second), kTolerance) << expected[i].first;
  }
}

template <class T>
Results run_transformer(const TransformerConfig& config) {
  const std::vector<std::int64_t> lengths{40, 0, 1, 2, 17, 200};
  const Device exec;
  const Routing routing = home_routing(lengths, config.heads);
  std::mt19937_64 random(1);
  const auto x = random_matrix<T>(routing.routed_rows(), config.d_model, random);
  const auto dy = random_matrix<T>(routing.routed_rows(), config.d_model, random);
  const Transformer<T> model(config, 1);
  Saved<T> saved;
  const auto y = doubles(model.forward(exec, routing, x, token_positions(lengths), saved));
  const auto dx = doubles(model.backward(exec, routing, dy, saved));
  Results results{{"y", y}, {"dx", dx}};
  for (std::int64_t block = 0; block < config.layers; ++block) {
    for (const ParameterInfo& info : block_parameters(config)) {
      results.emplace_back(std::to_string(block) + '/' + info.name,
                           doubles(model.gradient(block, info.name)));
    }
  }
  return results;
}

TEST(Bfloat16, Transformer) {
  for (const bool causal : {false, true}) {
    SCOPED_TRACE(causal ? "causal" : "full");
    const TransformerConfig config{
        .layers = 3, .d_model = 96, .heads = 3, .d_ffn = 200, .causal = causal};
    compare(run_transformer<bfloat16>(config), run_transformer<double>(config));
  }
}

template <class T>
Results run_mmdit(const MMDiTConfig& config) {
  const std::vector<std::int64_t> lengths{40, 0, 1, 2, 17, 200};
  const Device exec;
  const Routing routing = home_routing(lengths, config.heads);
  const MMDiTBatch<T> batch(config, lengths, 1);
  const MMDiT<T> model(config, 1);
  MMDiTSaved<T> saved;
  const auto out = doubles(model.forward(exec, routing, batch.input, saved));
  const auto d = model.backward(exec, routing, batch.d_out, saved);
  Results results{{"out", out}, {"d_patches", doubles(d.patches)}, {"d_text", doubles(d.text)}};
  for (const ParameterInfo& info : mmdit_parameters(config)) {
    results.emplace_back(info.name, doubles(model.gradient(info.name)));
  }
  return results;
}

TEST(Bfloat16, MMDiT) {
  MMDiTConfig config = small_mmdit(4);
  config.d_model = 4 * 32;
  config.rope_axes = {8, 12, 12};
  config.d_mlp = 4 * config.d_model;
  compare(run_mmdit<bfloat16>(config), run_mmdit<double>(config));
}

}  // namespace
}  // namespace knapformer::test
