// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <knapformer/kernels/gather_rows.hpp>
#include <knapformer/kernels/gelu.hpp>
#include <knapformer/kernels/gemm.hpp>
#include <knapformer/kernels/linear.hpp>
#include <knapformer/kernels/modulation.hpp>
#include <knapformer/kernels/split_qkv.hpp>
#include <knapformer/model/double_stream_block.hpp>

#include "model/parameter_views.hpp"
#include "model/stream_views.hpp"

namespace knapformer {
namespace {

using model::Stream;

/// Where each part of a modulation is.
enum Part : std::int64_t { kShift1, kScale1, kGate1, kShift2, kScale2, kGate2 };

template <class T>
using Weights = DoubleStreamWeights<T>;

template <class T>
std::array<Weights<T>, 2> double_stream_weights(const MMDiTConfig& config, const Vector<T>& flat) {
  model::ParameterViews<T> views("double-stream block", double_stream_parameters(config), flat);
  std::array<Weights<T>, 2> streams;
  for (Weights<T>& w : streams) {
    w.mod_weight = views.matrix();
    w.mod_bias = views.vector();
    w.qkv_weight = views.matrix();
    w.qkv_bias = views.vector();
    w.q_norm = views.vector();
    w.k_norm = views.vector();
    w.proj_weight = views.matrix();
    w.proj_bias = views.vector();
    w.up_weight = views.matrix();
    w.up_bias = views.vector();
    w.down_weight = views.matrix();
    w.down_bias = views.vector();
  }
  return streams;
}

/// One stream of a block: what its steps share.
template <class T>
struct StreamStep {
  const StreamContext<T>& context;
  const MMDiTConfig& config;
  Stream stream;
  const Weights<T>& p;
  const Weights<Accumulate<T>>& g;  // gradients
  const Matrix<T>& modulation;
  const Matrix<T>& d_modulation;
  const DoubleStreamActivations<T>& saved;
  const StreamScratch<T>& scratch;

  const Device& exec() const { return context.block.exec; }
  Matrix<T> part(Part which) const { return model::part(modulation, which, config.d_model); }
  Matrix<T> d_part(Part which) const { return model::part(d_modulation, which, config.d_model); }
  kernels::HeadOrder head_order() const { return {kernels::RopePairs::kNeighbours, stream.places}; }
};

/// From x to q, k and v, in their routed places.
template <class T>
void before_attention(const StreamStep<T>& s, const kernels::MatrixIn<T>& x) {
  const DoubleStreamActivations<T>& saved = s.saved;
  const Matrix<T> normed = s.stream.of(saved.attn_normed), qkv = s.stream.of(saved.qkv);
  kernels::linear(s.exec(), s.context.conditioning, s.p.mod_weight, s.p.mod_bias, s.modulation);
  kernels::modulated_norm(s.exec(), s.stream.offsets, s.stream.of(x), s.part(kShift1),
                          s.part(kScale1), s.config.eps, normed, s.stream.of(saved.attn_moments));
  kernels::linear(s.exec(), normed, s.p.qkv_weight, s.p.qkv_bias, qkv);
  kernels::split_qkv(s.exec(), qkv, s.p.q_norm, s.p.k_norm, s.context.block.rope, s.config.eps,
                     s.scratch.heads.q, s.scratch.heads.k, s.scratch.heads.v,
                     s.stream.of(saved.qk_inverse_rms), s.head_order());
}

template <class T>
void after_attention(const StreamStep<T>& s, const kernels::MatrixIn<T>& x) {
  const DoubleStreamActivations<T>& saved = s.saved;
  const auto of = [&](const auto& rows) { return s.stream.of(rows); };
  kernels::gather_rows(s.exec(), s.stream.places, s.scratch.mixed, of(saved.mixed));
  kernels::linear(s.exec(), of(saved.mixed), s.p.proj_weight, s.p.proj_bias, of(saved.projected));
  kernels::gated_residual(s.exec(), s.stream.offsets, of(saved.projected), s.part(kGate1),
                          s.stream.of(x), of(saved.middle));
  kernels::modulated_norm(s.exec(), s.stream.offsets, of(saved.middle), s.part(kShift2),
                          s.part(kScale2), s.config.eps, of(saved.mlp_normed),
                          of(saved.mlp_moments));
  kernels::gemm(s.exec(), kernels::Transpose::kNo, kernels::Transpose::kYes, 1,
                of(saved.mlp_normed), s.p.up_weight, 0, of(saved.hidden));
  kernels::bias_gelu(s.exec(), of(saved.hidden), s.p.up_bias, of(saved.activated));
  kernels::linear(s.exec(), of(saved.activated), s.p.down_weight, s.p.down_bias, of(saved.mlp_out));
}

/// The gradient of y becomes that of the middle, and scratch.mixed that of what attention gave.
template <class T>
void after_attention_backward(const StreamStep<T>& s, const Matrix<T>& gradient) {
  const DoubleStreamActivations<T>& saved = s.saved;
  const auto of = [&](const auto& rows) { return s.stream.of(rows); };
  const Matrix<T> dy = of(gradient), d_rows = of(s.scratch.d_rows);
  const Matrix<T> d_hidden = of(s.scratch.d_hidden), d_activated = of(s.scratch.d_activated);
  kernels::gated_residual_backward(s.exec(), s.stream.offsets, of(saved.mlp_out), s.part(kGate2),
                                   dy, d_rows, s.d_part(kGate2));
  kernels::linear_backward(s.exec(), of(saved.activated), s.p.down_weight, d_rows, d_activated,
                           s.g.down_weight, s.g.down_bias);
  kernels::bias_gelu_backward(s.exec(), of(saved.hidden), s.p.up_bias, d_activated, d_hidden);
  kernels::linear_backward(s.exec(), of(saved.mlp_normed), s.p.up_weight, d_hidden, d_rows,
                           s.g.up_weight, s.g.up_bias);
  kernels::modulated_norm_backward(s.exec(), s.stream.offsets, of(saved.middle), s.part(kScale2),
                                   of(saved.mlp_moments), d_rows, dy, s.d_part(kShift2),
                                   s.d_part(kScale2));
  const Matrix<T> d_mixed = of(s.scratch.d_sorted);
  kernels::gated_residual_backward(s.exec(), s.stream.offsets, of(saved.projected), s.part(kGate1),
                                   dy, d_rows, s.d_part(kGate1));
  kernels::linear_backward(s.exec(), of(saved.mixed), s.p.proj_weight, d_rows, d_mixed,
                           s.g.proj_weight, s.g.proj_bias);
  kernels::scatter_rows(s.exec(), s.stream.places, d_mixed, s.scratch.mixed);
}

template <class T>
void before_attention_backward(const StreamStep<T>& s, const kernels::MatrixIn<T>& x,
                               const Matrix<T>& gradient) {
  const DoubleStreamActivations<T>& saved = s.saved;
  const HeadScratch<T>& heads = s.scratch.heads;
  const Matrix<T> d_qkv = s.stream.of(s.scratch.d_qkv), d_rows = s.stream.of(s.scratch.d_rows);
  kernels::split_qkv_backward(s.exec(), s.stream.of(saved.qkv), s.p.q_norm, s.p.k_norm,
                              s.context.block.rope, s.stream.of(saved.qk_inverse_rms), heads.q,
                              heads.k, heads.v, d_qkv, s.g.q_norm, s.g.k_norm, s.head_order());
  kernels::linear_backward(s.exec(), s.stream.of(saved.attn_normed), s.p.qkv_weight, d_qkv, d_rows,
                           s.g.qkv_weight, s.g.qkv_bias);
  kernels::modulated_norm_backward(s.exec(), s.stream.offsets, s.stream.of(x), s.part(kScale1),
                                   s.stream.of(saved.attn_moments), d_rows, s.stream.of(gradient),
                                   s.d_part(kShift1), s.d_part(kScale1));
  kernels::linear_backward(s.exec(), s.context.conditioning, s.p.mod_weight, s.d_modulation,
                           s.context.d_conditioning, s.g.mod_weight, s.g.mod_bias, 1);
}

/// step(StreamStep) for text, then for images.
template <class T, class Step>
void for_both(const StreamContext<T>& context, const MMDiTConfig& config,
              const std::array<Weights<T>, 2>& parameters,
              const std::array<Weights<Accumulate<T>>, 2>& gradients,
              const DoubleStreamActivations<T>& saved, const StreamScratch<T>& scratch,
              const Step& step) {
  for (const std::size_t which : {0, 1}) {
    step(StreamStep<T>{context, config, model::stream(context.order, which), parameters[which],
                       gradients[which], saved.modulation[which], scratch.d_modulation[which],
                       saved, scratch});
  }
}

}  // namespace

template <class T>
void DoubleStreamActivations<T>::resize(const Device& exec, const MMDiTConfig& config,
                                        const Routing& routing) {
  const std::int64_t rows = routing.routed_rows(), d = config.d_model;
  arena_.lay_out(exec, [&](auto& cursor) {
    for (Matrix<T>& one : modulation) one = cursor.matrix(std::ssize(routing.chunks()), 6 * d);
    for (Matrix<T>* view : {&attn_normed, &mixed, &projected, &middle, &mlp_normed, &mlp_out}) {
      *view = cursor.matrix(rows, d);
    }
    for (Matrix<Accumulate<T>>* view : {&attn_moments, &mlp_moments})
      *view = cursor.wide_matrix(rows, 2);
    qkv = cursor.matrix(rows, 3 * d);
    qk_inverse_rms = cursor.wide_matrix(rows, 2 * config.heads);
    heads.take(cursor, routing, config.d_head());
    for (Matrix<T>* view : {&hidden, &activated}) *view = cursor.matrix(rows, config.d_mlp);
  });
}

template <class T>
DoubleStreamBlock<T>::DoubleStreamBlock(const MMDiTConfig& config, const Vector<T>& parameters,
                                        const Vector<Accumulate<T>>& gradients)
    : config_(config),
      parameters_(double_stream_weights<T>(config, parameters)),
      gradients_(double_stream_weights<Accumulate<T>>(config, gradients)) {}

template <class T>
void DoubleStreamBlock<T>::activate(const StreamContext<T>& context, const kernels::MatrixIn<T>& x,
                                    const StreamScratch<T>& scratch,
                                    const DoubleStreamActivations<T>& saved) const {
  const Kokkos::Profiling::ScopedRegion region("KnapFormer::DoubleStreamBlock::activate");
  for_both<T>(context, config_, parameters_, gradients_, saved, scratch,
              [&](const StreamStep<T>& step) { before_attention(step, x); });
  attend(context.block, scratch.heads, saved.heads, scratch.mixed);
  for_both<T>(context, config_, parameters_, gradients_, saved, scratch,
              [&](const StreamStep<T>& step) { after_attention(step, x); });
}

template <class T>
void DoubleStreamBlock<T>::finish(const StreamContext<T>& context,
                                  const DoubleStreamActivations<T>& saved,
                                  const Matrix<T>& y) const {
  for (const std::size_t which : {0, 1}) {
    const Stream stream = model::stream(context.order, which);
    kernels::gated_residual(context.block.exec, stream.offsets, stream.of(saved.mlp_out),
                            model::part(saved.modulation[which], kGate2, config_.d_model),
                            stream.of(saved.middle), stream.of(y));
  }
}

template <class T>
void DoubleStreamBlock<T>::backward(const StreamContext<T>& context, const kernels::MatrixIn<T>& x,
                                    const DoubleStreamActivations<T>& saved,
                                    const StreamScratch<T>& scratch,
                                    const Matrix<T>& gradient) const {
  const Kokkos::Profiling::ScopedRegion region("KnapFormer::DoubleStreamBlock::backward");
  for_both<T>(context, config_, parameters_, gradients_, saved, scratch,
              [&](const StreamStep<T>& step) { after_attention_backward(step, gradient); });
  attend_backward(context.block, saved.heads, scratch.heads, scratch.mixed);
  for_both<T>(context, config_, parameters_, gradients_, saved, scratch,
              [&](const StreamStep<T>& step) { before_attention_backward(step, x, gradient); });
}

template struct DoubleStreamActivations<float>;
template struct DoubleStreamActivations<double>;
template struct DoubleStreamActivations<bfloat16>;
template class DoubleStreamBlock<float>;
template class DoubleStreamBlock<double>;
template class DoubleStreamBlock<bfloat16>;

}  // namespace knapformer
