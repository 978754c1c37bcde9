// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/rope.hpp>
#include <model/golden_support.hpp>

namespace knapformer::test {
namespace {

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  const GoldenFile file{golden_directory() + "/" + GetParam()};
  const std::vector<std::int64_t> lengths = golden_integers(file, "/input/seq_lens");
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
  void load_parameters(const Transformer<T>& model) const {
    for (const ParameterInfo& info : block_parameters(config)) {
      from_host(file.array("/param/" + info.name).values, model.parameter(0, info.name));
    }
  }

  template <class T>
  void compare_gradients(GoldenComparison& compare, const Vector<Accumulate<T>>& gradients,
                         const Matrix<T>& dx) const {
    compare("/grad/input/x", to_host(dx));
    compare.gradients(block_parameters(config), gradients);
  }

  /// The block with the angles of the file.
  template <class T>
  void check_block(double tolerance) {
    const Device exec;
    const Routing routing = home_routing(lengths, config.heads);
    const Vector<T> parameters = golden_parameters<T>(file, block_parameters(config));
    const Vector<Accumulate<T>> gradients("KnapFormer::test", parameters.extent(0));
    const TransformerBlock<T> block(config, parameters, gradients);

    const RoutedAttention attention = make_routed_attention(exec, routing, config.causal);
    const ExchangeObserver observer;
    const BlockContext<T> context{exec, routing, attention, golden_rope<Accumulate<T>>(file),
                                  observer};
    BlockActivations<T> activations;
    BlockScratch<T> scratch;
    activations.resize(exec, config, routing);
    scratch.resize(exec, config, routing, attention);
    const Matrix<T> input = golden_matrix<T>(x),
                    gradient = golden_matrix<T>(file.array("/grad/output"));
    const Matrix<T> y("KnapFormer::test", x.extents.at(0), x.extents.at(1));
    block.activate(context, input, scratch, activations);
    block.finish(context, activations, y);
    GoldenComparison compare(file, tolerance, sizeof(T) == 2);
    compare("/output", to_host(y));
    block.backward(context, input, activations, scratch, gradient);
    compare_gradients(compare, gradients, gradient);
  }
};
INSTANTIATE_TEST_SUITE_P(Files, Golden,
                         ::testing::Values("transformer_block.h5", "transformer_block_causal.h5"),
                         [](const auto& test) {
                           const std::string name = test.param;
                           return name.substr(0, name.find('.'));
                         });

TEST_P(Golden, BlockInDouble) { check_block<double>(1e-10); }
TEST_P(Golden, BlockInFloat) { check_block<float>(1e-4); }
TEST_P(Golden, BlockInBfloat16) { check_block<bfloat16>(2e-2); }

/// The stack computes the angles from positions: those of the reference are 0, 1, ... in each
/// sequence.
TEST_P(Golden, StackFromPositions) {
  const Device exec;
  const Routing routing = home_routing(lengths, config.heads);
  const Transformer<double> model(config, 1);
  load_parameters(model);
  const Positions positions = token_positions(lengths);
  const Matrix<double> table("KnapFormer::test", routing.routed_rows(), config.d_head());
  kernels::rope_table(exec, positions, config.rope_base, {config.d_head(), 0, 0}, table);
  ASSERT_LE(difference(to_host(table), to_host(golden_rope<double>(file))), 1e-12);

  Saved<double> saved;
  const Matrix<double> input = golden_matrix<double>(x);
  GoldenComparison compare(file, 1e-10);
  compare("/output", to_host(model.forward(exec, routing, input, positions, saved)));
  const Matrix<double> dy = golden_matrix<double>(file.array("/grad/output"));
  const Matrix<double> dx = model.backward(exec, routing, dy, saved);
  compare_gradients(compare, model.gradients(), dx);
}

}  // namespace
}  // namespace knapformer::test
