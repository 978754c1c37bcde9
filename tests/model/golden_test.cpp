// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <knapformer/kernels/rope.hpp>
#include <model/model_support.hpp>
#include <support/golden_file.hpp>

namespace knapformer::test {
namespace {

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  const GoldenFile file{golden_directory() + "/" + GetParam()};
  const std::vector<double> raw_lengths = file.array("/input/seq_lens").values;
  const std::vector<std::int64_t> lengths{raw_lengths.begin(), raw_lengths.end()};
  const GoldenArray x = file.array("/input/x");
  const TransformerConfig config = [this] {
    const auto d_model = static_cast<std::int64_t>(file.attribute("d_model"));
    return TransformerConfig{.layers = 1,
                             .d_model = d_model,
                             .heads = d_model / static_cast<std::int64_t>(file.attribute("d_head")),
                             .d_ffn = file.array("/param/ffn/ffn_down_proj/weight").extents.at(1),
                             .causal = file.attribute("causal") != 0,
                             .rms_eps = file.attribute("rms_eps")};
  }();

  template <class T>
  static Matrix<T> matrix(const GoldenArray& array) {
    Matrix<T> view("KnapFormer::test", array.extents.at(0), array.extents.at(1));
    from_host(array.values, view);
    return view;
  }

  /// cos and sin, each of which the file gives twice.
  template <class T>
  Matrix<T> rope() const {
    const GoldenArray table = file.array("/input/rope_cos_sin");
    const std::int64_t rows = table.extents.at(0), d_head = config.d_head(), half = d_head / 2;
    EXPECT_EQ(table.extents.at(1), 2 * d_head);
    std::vector<double> values;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto at = table.values.begin() + row * 2 * d_head;
      values.insert(values.end(), at, at + half);
      values.insert(values.end(), at + d_head, at + d_head + half);
    }
    Matrix<T> view("KnapFormer::test", rows, d_head);
    from_host(values, view);
    return view;
  }

  template <class T>
  void expect_golden(const std::string& name, const std::vector<T>& got, double tolerance) const {
    const double error = difference(got, file.array(name).values);
    EXPECT_LE(error, tolerance) << name;
    worst_ = std::max(worst_, error);
  }

  template <class T>
  void load_parameters(const Transformer<T>& model) const {
    for (const ParameterInfo& info : block_parameters(config)) {
      from_host(file.array("/param/" + info.name).values, model.parameter(0, info.name));
    }
  }

  template <class T>
  void expect_golden_gradients(const Transformer<T>& model, const Matrix<T>& dx,
                               double tolerance) const {
    expect_golden("/grad/input/x", to_host(dx), tolerance);
    for (const ParameterInfo& info : block_parameters(config)) {
      expect_golden("/grad/param/" + info.name, to_host(model.gradient(0, info.name)), tolerance);
    }
  }

  /// The block with the angles of the file.
  template <class T>
  void check_block(double tolerance) {
    const Device exec;
    const Routing routing = home_routing(lengths, config.heads);
    const Transformer<T> model(config, 1);
    load_parameters(model);
    const TransformerBlock<T> block(config, model.parameters(), model.gradients());

    const RoutedAttention attention = make_routed_attention(exec, routing, config.causal);
    const ExchangeObserver observer;
    const BlockContext<T> context{exec, routing, attention, rope<T>(), observer};
    BlockActivations<T> activations;
    BlockScratch<T> scratch;
    activations.resize(exec, config, routing);
    scratch.resize(exec, config, routing, attention);
    const Matrix<T> input = matrix<T>(x), gradient = matrix<T>(file.array("/grad/output"));
    const Matrix<T> y("KnapFormer::test", x.extents.at(0), x.extents.at(1));
    block.activate(context, input, scratch, activations);
    block.finish(context, activations, y);
    expect_golden("/output", to_host(y), tolerance);
    block.backward(context, input, activations, scratch, gradient);
    expect_golden_gradients(model, gradient, tolerance);
    RecordProperty("largest_difference", ::testing::PrintToString(worst_));
  }

  mutable double worst_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Files, Golden,
                         ::testing::Values("transformer_block.h5", "transformer_block_causal.h5"),
                         [](const auto& test) {
                           const std::string name = test.param;
                           return name.substr(0, name.find('.'));
                         });

TEST_P(Golden, BlockInDouble) { check_block<double>(1e-10); }
TEST_P(Golden, BlockInFloat) { check_block<float>(1e-4); }

/// The stack computes the angles from positions: those of the reference are 0, 1, ... in each
/// sequence.
TEST_P(Golden, StackFromPositions) {
  const Device exec;
  const Routing routing = home_routing(lengths, config.heads);
  const Transformer<double> model(config, 1);
  load_parameters(model);
  const Positions positions = token_positions(lengths);
  const Matrix<double> table("KnapFormer::test", routing.routed_rows(), config.d_head());
  kernels::rope_table(exec, positions, config.rope_base, table);
  ASSERT_LE(difference(to_host(table), to_host(rope<double>())), 1e-12);

  Saved<double> saved;
  const Matrix<double> input = matrix<double>(x);
  expect_golden("/output", to_host(model.forward(exec, routing, input, positions, saved)), 1e-10);
  const Matrix<double> dy = matrix<double>(file.array("/grad/output"));
  expect_golden_gradients(model, model.backward(exec, routing, dy, saved), 1e-10);
}

}  // namespace
}  // namespace knapformer::test
