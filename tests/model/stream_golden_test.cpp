// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/gather_rows.hpp>
#include <knapformer/kernels/silu.hpp>
#include <knapformer/model/double_stream_block.hpp>
#include <knapformer/model/single_stream_block.hpp>
#include <model/golden_support.hpp>
#include <optional>

namespace knapformer::test {
namespace {

/// A block of MMDiT with the input of a golden file.
template <class T>
class StreamGolden {
 public:
  StreamGolden(const std::string& name, double tolerance)
      : file(golden_directory() + "/" + name), compare(file, tolerance, sizeof(T) == 2) {
    config.d_model = static_cast<std::int64_t>(file.attribute("d_model"));
    config.heads = config.d_model / static_cast<std::int64_t>(file.attribute("d_head"));
    config.eps = file.attribute("layer_norm_eps");
    EXPECT_EQ(config.eps, file.attribute("rms_eps"));
    config.d_mlp = 4 * config.d_model;
    config.rope_axes = {config.d_head(), 0, 0};
    routing.emplace(home_routing(golden_integers(file, "/input/seq_lens"), config.heads));
    const Modalities modalities("KnapFormer::test", routing->routed_rows());
    from_host(file.array("/input/modality").values, modalities);
    order = make_stream_order(exec, *routing, modalities);
    attention = make_routed_attention(exec, *routing, false);
    scratch.resize(exec, config, *routing, attention);
    vec = golden_matrix<T>(file.array("/input/vec"));
    conditioning = Matrix<T>("KnapFormer::test", vec.extent(0), vec.extent(1));
    d_conditioning = Matrix<T>("KnapFormer::test", vec.extent(0), vec.extent(1));
    kernels::silu(exec, vec, conditioning);
    x = golden_matrix<T>(file.array("/input/x"));
    gradient = golden_matrix<T>(file.array("/grad/output"));
    y = Matrix<T>("KnapFormer::test", x.extent(0), x.extent(1));
  }

  StreamContext<T> context() const {
    return {{exec, *routing, attention, golden_rope<Accumulate<T>>(file), observer},
            order,
            conditioning,
            d_conditioning};
  }
  /// Between the order of the file and that of double-stream blocks.
  Matrix<T> sorted(const Matrix<T>& rows) const {
    const Matrix<T> out("KnapFormer::test", rows.extent(0), rows.extent(1));
    kernels::gather_rows(exec, order.rows, rows, out);
    return out;
  }
  Matrix<T> unsorted(const Matrix<T>& rows) const {
    const Matrix<T> out("KnapFormer::test", rows.extent(0), rows.extent(1));
    kernels::scatter_rows(exec, order.rows, rows, out);
    return out;
  }

  void expect_gradients(const Matrix<T>& dx, const std::vector<ParameterInfo>& layout,
                        const Vector<Accumulate<T>>& gradients) {
    compare("/grad/input/x", to_host(dx));
    kernels::silu_backward(exec, vec, d_conditioning, d_conditioning);
    compare("/grad/input/vec", to_host(d_conditioning));
    compare.gradients(layout, gradients);
  }

  GoldenFile file;
  GoldenComparison compare;
  Device exec;
  MMDiTConfig config;
  std::optional<Routing> routing;
  StreamOrder order;
  RoutedAttention attention;
  ExchangeObserver observer;
  StreamScratch<T> scratch;
  Matrix<T> x, y, gradient, vec, conditioning, d_conditioning;
};

template <class T>
void check_double_stream(double tolerance) {
  StreamGolden<T> golden("double_stream_block.h5", tolerance);
  EXPECT_EQ(golden.order.text_rows, 5);
  const auto layout = double_stream_parameters(golden.config);
  const Vector<T> parameters = golden_parameters<T>(golden.file, layout);
  const Vector<Accumulate<T>> gradients("KnapFormer::test", parameters.extent(0));
  const DoubleStreamBlock<T> block(golden.config, parameters, gradients);
  DoubleStreamActivations<T> saved;
  saved.resize(golden.exec, golden.config, *golden.routing);
  const auto context = golden.context();
  const Matrix<T> x = golden.sorted(golden.x), gradient = golden.sorted(golden.gradient);
  block.activate(context, x, golden.scratch, saved);
  block.finish(context, saved, golden.y);
  golden.compare("/output", to_host(golden.unsorted(golden.y)));
  block.backward(context, x, saved, golden.scratch, gradient);
  golden.expect_gradients(golden.unsorted(gradient), layout, gradients);
}

TEST(StreamGolden, DoubleStreamInDouble) { check_double_stream<double>(1e-10); }
TEST(StreamGolden, DoubleStreamInFloat) { check_double_stream<float>(1e-4); }
TEST(StreamGolden, DoubleStreamInBfloat16) { check_double_stream<bfloat16>(2e-2); }

template <class T>
void check_single_stream(double tolerance) {
  StreamGolden<T> golden("single_stream_block.h5", tolerance);
  const auto layout = single_stream_parameters(golden.config);
  const Vector<T> parameters = golden_parameters<T>(golden.file, layout);
  const Vector<Accumulate<T>> gradients("KnapFormer::test", parameters.extent(0));
  const SingleStreamBlock<T> block(golden.config, parameters, gradients);
  SingleStreamActivations<T> saved;
  saved.resize(golden.exec, golden.config, *golden.routing);
  const auto context = golden.context();
  block.activate(context, golden.x, golden.scratch, saved);
  block.finish(context, golden.x, saved, golden.y);
  golden.compare("/output", to_host(golden.y));
  block.backward(context, golden.x, saved, golden.scratch, golden.gradient);
  golden.expect_gradients(golden.gradient, layout, gradients);
}

TEST(StreamGolden, SingleStreamInDouble) { check_single_stream<double>(1e-10); }
TEST(StreamGolden, SingleStreamInFloat) { check_single_stream<float>(1e-4); }
TEST(StreamGolden, SingleStreamInBfloat16) { check_single_stream<bfloat16>(2e-2); }

}  // namespace
}  // namespace knapformer::test
