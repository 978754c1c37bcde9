// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "stream_step.hpp"

#include <Kokkos_Random.hpp>
#include <knapformer/comm/communicator.hpp>
#include <knapformer/kernels/rope.hpp>
#include <knapformer/kernels/silu.hpp>
#include <knapformer/model/double_stream_block.hpp>
#include <knapformer/model/single_stream_block.hpp>
#include <knapformer/plan/planner.hpp>
#include <vector>

namespace knapformer::perf {
namespace {

MMDiTConfig config_of(const StreamShape& shape) {
  MMDiTConfig config;
  config.d_model = shape.d_model;
  config.heads = shape.heads;
  config.d_mlp = 4 * shape.d_model;
  config.rope_axes = {config.d_head(), 0, 0};
  return config;
}

Routing alone(const StreamShape& shape) {
  const std::int64_t offsets[] = {0, 1}, lengths[] = {shape.tokens};
  const Topology topology = Topology::singles(1);
  const CostModel cost = CostModel::transformer(shape.d_model);
  return Routing(Communicator(MPI_COMM_SELF), make_home_plan({.topology = topology,
                                                              .cost = cost,
                                                              .heads = shape.heads,
                                                              .lengths = lengths,
                                                              .offsets = offsets}));
}

Modalities modalities_of(const StreamShape& shape) {
  const Modalities modalities("KnapFormer::bench", shape.tokens);
  Kokkos::deep_copy(modalities, 1);
  Kokkos::deep_copy(Kokkos::subview(modalities, std::pair(std::int64_t{0}, shape.text_tokens)), 0);
  return modalities;
}

Positions positions_of(std::int64_t tokens) {
  const Positions positions("KnapFormer::bench", tokens, 3);
  Kokkos::parallel_for(
      "KnapFormer::bench_positions", Kokkos::RangePolicy<Device>(0, tokens),
      KOKKOS_LAMBDA(std::int64_t i) { positions(i, 0) = static_cast<std::int32_t>(i); });
  return positions;
}

}  // namespace

double flops(const StreamShape& shape) {
  const auto length = static_cast<double>(shape.tokens), d = static_cast<double>(shape.d_model);
  return 72 * length * d * d + 14 * length * length * d;
}

struct StreamStep::Data {
  explicit Data(const StreamShape& given)
      : shape(given),
        config(config_of(given)),
        routing(alone(given)),
        order(make_stream_order(exec, routing, modalities_of(given))),
        attention(make_routed_attention(exec, routing, false)) {
    const auto random = [this](std::int64_t rows, double size) {
      const Matrix<float> view("KnapFormer::bench", rows, shape.d_model);
      Kokkos::fill_random(exec, view, pool, static_cast<float>(-size), static_cast<float>(size));
      return view;
    };
    x = random(shape.tokens, 1.7);
    cotangent = random(shape.tokens, 1.7);
    gradient = random(shape.tokens, 1.7);
    y = random(shape.tokens, 1.7);
    vec = random(1, 1.7);
    conditioning = random(1, 1.7);
    d_conditioning = random(1, 1.7);
    const auto layout =
        shape.double_stream ? double_stream_parameters(config) : single_stream_parameters(config);
    parameters = Vector<float>("KnapFormer::bench", total_size(layout));
    gradients = Vector<float>("KnapFormer::bench", total_size(layout));
    Kokkos::fill_random(exec, parameters, pool, -0.03F, 0.03F);
    rope = Matrix<float>("KnapFormer::bench", shape.tokens, config.d_head());
    kernels::rope_table(exec, positions_of(shape.tokens), config.rope_base, config.rope_axes, rope);
    scratch.resize(exec, config, routing, attention);
    if (shape.double_stream) {
      double_saved.resize(exec, config, routing);
    } else {
      single_saved.resize(exec, config, routing);
    }
    exec.fence("KnapFormer::bench");
  }

  StreamShape shape;
  MMDiTConfig config;
  Device exec;
  Kokkos::Random_XorShift64_Pool<Device> pool{1};
  Routing routing;
  StreamOrder order;
  RoutedAttention attention;
  ExchangeObserver observer;
  Matrix<float> x, cotangent, gradient, y, vec, conditioning, d_conditioning, rope;
  Vector<float> parameters, gradients;
  StreamScratch<float> scratch;
  DoubleStreamActivations<float> double_saved;
  SingleStreamActivations<float> single_saved;
};

StreamStep::StreamStep(const StreamShape& shape) : data_(std::make_unique<Data>(shape)) {}
StreamStep::~StreamStep() = default;

void StreamStep::run() const {
  const Data& d = *data_;
  Kokkos::deep_copy(d.exec, d.gradients, 0.0F);
  Kokkos::deep_copy(d.exec, d.d_conditioning, 0.0F);
  Kokkos::deep_copy(d.exec, d.gradient, d.cotangent);
  kernels::silu(d.exec, d.vec, d.conditioning);
  const StreamContext<float> context{{d.exec, d.routing, d.attention, d.rope, d.observer},
                                     d.order,
                                     d.conditioning,
                                     d.d_conditioning};
  if (d.shape.double_stream) {
    const DoubleStreamBlock<float> block(d.config, d.parameters, d.gradients);
    block.activate(context, d.x, d.scratch, d.double_saved);
    block.finish(context, d.double_saved, d.y);
    block.backward(context, d.x, d.double_saved, d.scratch, d.gradient);
  } else {
    const SingleStreamBlock<float> block(d.config, d.parameters, d.gradients);
    block.activate(context, d.x, d.scratch, d.single_saved);
    block.finish(context, d.x, d.single_saved, d.y);
    block.backward(context, d.x, d.single_saved, d.scratch, d.gradient);
  }
  kernels::silu_backward(d.exec, d.vec, d.d_conditioning, d.d_conditioning);
  d.exec.fence("KnapFormer::bench");
}

}  // namespace knapformer::perf
