// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <iterator>
#include <knapformer/kernels/gelu.hpp>
#include <knapformer/kernels/gemm.hpp>
#include <knapformer/kernels/linear.hpp>
#include <knapformer/kernels/modulation.hpp>
#include <knapformer/kernels/split_qkv.hpp>
#include <knapformer/model/single_stream_block.hpp>

#include "model/parameter_views.hpp"
#include "model/range.hpp"
#include "model/stream_views.hpp"

namespace knapformer {
namespace {

using kernels::Transpose;

constexpr kernels::RopePairs kPairs = kernels::RopePairs::kNeighbours;

template <class T>
SingleStreamWeights<T> single_stream_weights(const MMDiTConfig& config, const Vector<T>& flat) {
  const std::int64_t d = config.d_model, d_mlp = config.d_mlp;
  model::ParameterViews<T> views("single-stream block", single_stream_parameters(config), flat);
  SingleStreamWeights<T> w;
  w.mod_weight = views.matrix();
  w.mod_bias = views.vector();
  const Matrix<T> linear1 = views.matrix();
  w.qkv_weight = Kokkos::subview(linear1, model::range(0, 3 * d), Kokkos::ALL);
  w.up_weight = Kokkos::subview(linear1, model::range(3 * d, d_mlp), Kokkos::ALL);
  const Vector<T> bias = views.vector();
  w.qkv_bias = Kokkos::subview(bias, model::range(0, 3 * d));
  w.up_bias = Kokkos::subview(bias, model::range(3 * d, d_mlp));
  w.q_norm = views.vector();
  w.k_norm = views.vector();
  const Matrix<T> linear2 = views.matrix();
  w.proj_weight = Kokkos::subview(linear2, Kokkos::ALL, model::range(0, d));
  w.down_weight = Kokkos::subview(linear2, Kokkos::ALL, model::range(d, d_mlp));
  w.out_bias = views.vector();
  return w;
}

}  // namespace

template <class T>
void SingleStreamActivations<T>::resize(const Device& exec, const MMDiTConfig& config,
                                        const Routing& routing) {
  const std::int64_t rows = routing.routed_rows(), d = config.d_model;
  arena_.lay_out(exec, [&](auto& cursor) {
    modulation = cursor.matrix(std::ssize(routing.chunks()), 3 * d);
    for (Matrix<T>* view : {&normed, &mixed, &out}) *view = cursor.matrix(rows, d);
    moments = cursor.wide_matrix(rows, 2);
    qkv = cursor.matrix(rows, 3 * d);
    qk_inverse_rms = cursor.wide_matrix(rows, 2 * config.heads);
    heads.take(cursor, routing, config.d_head());
    for (Matrix<T>* view : {&hidden, &activated}) *view = cursor.matrix(rows, config.d_mlp);
  });
}

template <class T>
SingleStreamBlock<T>::SingleStreamBlock(const MMDiTConfig& config, const Vector<T>& parameters,
                                        const Vector<Accumulate<T>>& gradients)
    : config_(config),
      parameters_(single_stream_weights<T>(config, parameters)),
      gradients_(single_stream_weights<Accumulate<T>>(config, gradients)) {}

template <class T>
void SingleStreamBlock<T>::activate(const StreamContext<T>& context, const kernels::MatrixIn<T>& x,
                                    const StreamScratch<T>& scratch,
                                    const SingleStreamActivations<T>& saved) const {
  const Kokkos::Profiling::ScopedRegion region("KnapFormer::SingleStreamBlock::activate");
  const Device& exec = context.block.exec;
  const auto& p = parameters_;
  const std::int64_t d = config_.d_model;
  kernels::linear(exec, context.conditioning, p.mod_weight, p.mod_bias, saved.modulation);
  kernels::modulated_norm(
      exec, context.order.all, x, model::part(saved.modulation, model::kShift, d),
      model::part(saved.modulation, model::kScale, d), config_.eps, saved.normed, saved.moments);
  kernels::linear(exec, saved.normed, p.qkv_weight, p.qkv_bias, saved.qkv);
  kernels::gemm(exec, Transpose::kNo, Transpose::kYes, 1, saved.normed, p.up_weight, 0,
                saved.hidden);
  kernels::bias_gelu(exec, saved.hidden, p.up_bias, saved.activated);
  kernels::split_qkv(exec, saved.qkv, p.q_norm, p.k_norm, context.block.rope, config_.eps,
                     scratch.heads.q, scratch.heads.k, scratch.heads.v, saved.qk_inverse_rms,
                     {.pairs = kPairs});
  attend(context.block, scratch.heads, saved.heads, saved.mixed);
  kernels::linear(exec, saved.mixed, p.proj_weight, p.out_bias, saved.out);
  kernels::gemm(exec, Transpose::kNo, Transpose::kYes, 1, saved.activated, p.down_weight, 1,
                saved.out);
}

template <class T>
void SingleStreamBlock<T>::finish(const StreamContext<T>& context, const kernels::MatrixIn<T>& x,
                                  const SingleStreamActivations<T>& saved,
                                  const Matrix<T>& y) const {
  kernels::gated_residual(context.block.exec, context.order.all, saved.out,
                          model::part(saved.modulation, model::kGate, config_.d_model), x, y);
}

template <class T>
void SingleStreamBlock<T>::backward(const StreamContext<T>& context, const kernels::MatrixIn<T>& x,
                                    const SingleStreamActivations<T>& saved,
                                    const StreamScratch<T>& scratch,
                                    const Matrix<T>& gradient) const {
  const Kokkos::Profiling::ScopedRegion region("KnapFormer::SingleStreamBlock::backward");
  const Device& exec = context.block.exec;
  const auto& p = parameters_;
  const auto& g = gradients_;
  const std::int64_t d = config_.d_model;
  const ChunkOffsets& offsets = context.order.all;
  const Matrix<T> d_modulation =
      Kokkos::subview(scratch.d_modulation[0], Kokkos::ALL, model::range(0, 3 * d));

  kernels::gated_residual_backward(exec, offsets, saved.out,
                                   model::part(saved.modulation, model::kGate, d), gradient,
                                   scratch.d_rows, model::part(d_modulation, model::kGate, d));
  kernels::linear_backward(exec, saved.mixed, p.proj_weight, scratch.d_rows, scratch.mixed,
                           g.proj_weight, g.out_bias);
  kernels::gemm(exec, Transpose::kNo, Transpose::kNo, 1, scratch.d_rows, p.down_weight, 0,
                scratch.d_activated);
  kernels::gemm<Accumulate<T>, T>(exec, Transpose::kYes, Transpose::kNo, 1, scratch.d_rows,
                                  saved.activated, 1, g.down_weight);
  kernels::bias_gelu_backward(exec, saved.hidden, p.up_bias, scratch.d_activated, scratch.d_hidden);
  attend_backward(context.block, saved.heads, scratch.heads, scratch.mixed);
  kernels::split_qkv_backward(exec, saved.qkv, p.q_norm, p.k_norm, context.block.rope,
                              saved.qk_inverse_rms, scratch.heads.q, scratch.heads.k,
                              scratch.heads.v, scratch.d_qkv, g.q_norm, g.k_norm,
                              {.pairs = kPairs});
  kernels::linear_backward(exec, saved.normed, p.qkv_weight, scratch.d_qkv, scratch.d_rows,
                           g.qkv_weight, g.qkv_bias);
  kernels::linear_backward(exec, saved.normed, p.up_weight, scratch.d_hidden, scratch.d_rows,
                           g.up_weight, g.up_bias, 1);
  kernels::modulated_norm_backward(
      exec, offsets, x, model::part(saved.modulation, model::kScale, d), saved.moments,
      scratch.d_rows, gradient, model::part(d_modulation, model::kShift, d),
      model::part(d_modulation, model::kScale, d));
  kernels::linear_backward(exec, context.conditioning, p.mod_weight, d_modulation,
                           context.d_conditioning, g.mod_weight, g.mod_bias, 1);
}

template struct SingleStreamActivations<float>;
template struct SingleStreamActivations<double>;
template struct SingleStreamActivations<bfloat16>;
template class SingleStreamBlock<float>;
template class SingleStreamBlock<double>;
template class SingleStreamBlock<bfloat16>;

}  // namespace knapformer
