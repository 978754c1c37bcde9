// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <algorithm>
#include <knapformer/kernels/linear.hpp>
#include <knapformer/kernels/rms_norm.hpp>
#include <knapformer/kernels/split_qkv.hpp>
#include <knapformer/kernels/swiglu.hpp>
#include <knapformer/model/transformer_block.hpp>

#include "model/parameter_views.hpp"

namespace knapformer {

template <class T>
BlockParameters<T>::BlockParameters(const TransformerConfig& config, const Vector<T>& flat) {
  model::ParameterViews<T> views("transformer block", block_parameters(config), flat);
  attn_norm = views.vector();
  qkv_weight = views.matrix();
  qkv_bias = views.vector();
  q_norm = views.vector();
  k_norm = views.vector();
  attn_out_weight = views.matrix();
  attn_out_bias = views.vector();
  ffn_norm = views.vector();
  gate_up_weight = views.matrix();
  gate_up_bias = views.vector();
  down_weight = views.matrix();
  down_bias = views.vector();
}

template <class T>
void BlockActivations<T>::resize(const Device& exec, const TransformerConfig& config,
                                 const Routing& routing) {
  const std::int64_t rows = routing.routed_rows(), d = config.d_model;
  arena_.lay_out(exec, [&](auto& cursor) {
    attn_normed = cursor.matrix(rows, d);
    attn_inverse_rms = cursor.wide_vector(rows);
    qkv = cursor.matrix(rows, config.d_qkv());
    qk_inverse_rms = cursor.wide_matrix(rows, config.heads + config.plan_heads());
    heads.take(cursor, routing, config.d_head(), config.queries_per_key());
    mixed = cursor.matrix(rows, d);
    middle = cursor.matrix(rows, d);
    ffn_normed = cursor.matrix(rows, d);
    ffn_inverse_rms = cursor.wide_vector(rows);
    gate_up = cursor.matrix(rows, 2 * config.d_ffn);
    gated = cursor.matrix(rows, config.d_ffn);
  });
}

template <class T>
void BlockScratch<T>::resize(const Device& exec, const TransformerConfig& config,
                             const Routing& routing, const RoutedAttention& attention) {
  const std::int64_t rows = routing.routed_rows(), d = config.d_model;
  arena_.lay_out(exec, [&](auto& cursor) {
    heads.take(cursor, routing, attention, config.d_head());
    d_rows = cursor.matrix(rows, d);
    d_gated = cursor.matrix(rows, config.d_ffn);
    const Vector<T> wide = cursor.vector(rows * std::max(2 * config.d_ffn, config.d_qkv()));
    d_gate_up = Matrix<T>(wide.data(), rows, 2 * config.d_ffn);
    d_qkv = Matrix<T>(wide.data(), rows, config.d_qkv());
  });
}

template <class T>
TransformerBlock<T>::TransformerBlock(const TransformerConfig& config, const Vector<T>& parameters,
                                      const Vector<Accumulate<T>>& gradients)
    : config_(config), parameters_(config, parameters), gradients_(config, gradients) {}

template <class T>
void TransformerBlock<T>::activate(const BlockContext<T>& context, const kernels::MatrixIn<T>& x,
                                   BlockScratch<T>& scratch, BlockActivations<T>& saved) const {
  const Kokkos::Profiling::ScopedRegion region("KnapFormer::TransformerBlock::activate");
  const Device& exec = context.exec;
  const BlockParameters<T>& p = parameters_;
  kernels::rms_norm(exec, x, p.attn_norm, config_.rms_eps, saved.attn_normed,
                    saved.attn_inverse_rms);
  kernels::linear(exec, saved.attn_normed, p.qkv_weight, p.qkv_bias, saved.qkv);
  kernels::split_qkv(exec, saved.qkv, p.q_norm, p.k_norm, context.rope, config_.rms_eps,
                     scratch.heads.q, scratch.heads.k, scratch.heads.v, saved.qk_inverse_rms);
  attend(context, scratch.heads, saved.heads, saved.mixed);
  kernels::linear_residual(exec, saved.mixed, p.attn_out_weight, p.attn_out_bias, x, saved.middle);
  kernels::rms_norm(exec, saved.middle, p.ffn_norm, config_.rms_eps, saved.ffn_normed,
                    saved.ffn_inverse_rms);
  kernels::linear(exec, saved.ffn_normed, p.gate_up_weight, p.gate_up_bias, saved.gate_up);
  kernels::swiglu(exec, saved.gate_up, saved.gated);
}

template <class T>
void TransformerBlock<T>::finish(const BlockContext<T>& context, const BlockActivations<T>& saved,
                                 const Matrix<T>& y) const {
  kernels::linear_residual(context.exec, saved.gated, parameters_.down_weight,
                           parameters_.down_bias, saved.middle, y);
}

template <class T>
void TransformerBlock<T>::backward(const BlockContext<T>& context, const kernels::MatrixIn<T>& x,
                                   const BlockActivations<T>& saved, BlockScratch<T>& scratch,
                                   const Matrix<T>& gradient) const {
  const Kokkos::Profiling::ScopedRegion region("KnapFormer::TransformerBlock::backward");
  const Device& exec = context.exec;
  const BlockParameters<T>& p = parameters_;
  const BlockParameters<Accumulate<T>>& g = gradients_;
  kernels::linear_backward(exec, saved.gated, p.down_weight, gradient, scratch.d_gated,
                           g.down_weight, g.down_bias);
  kernels::swiglu_backward(exec, saved.gate_up, scratch.d_gated, scratch.d_gate_up);
  kernels::linear_backward(exec, saved.ffn_normed, p.gate_up_weight, scratch.d_gate_up,
                           scratch.d_rows, g.gate_up_weight, g.gate_up_bias);
  kernels::rms_norm_backward(exec, saved.middle, p.ffn_norm, saved.ffn_inverse_rms, scratch.d_rows,
                             gradient, g.ffn_norm);

  kernels::linear_backward(exec, saved.mixed, p.attn_out_weight, gradient, scratch.d_rows,
                           g.attn_out_weight, g.attn_out_bias);
  attend_backward(context, saved.heads, scratch.heads, scratch.d_rows);
  kernels::split_qkv_backward(exec, saved.qkv, p.q_norm, p.k_norm, context.rope,
                              saved.qk_inverse_rms, scratch.heads.q, scratch.heads.k,
                              scratch.heads.v, scratch.d_qkv, g.q_norm, g.k_norm);
  kernels::linear_backward(exec, saved.attn_normed, p.qkv_weight, scratch.d_qkv, scratch.d_rows,
                           g.qkv_weight, g.qkv_bias);
  kernels::rms_norm_backward(exec, x, p.attn_norm, saved.attn_inverse_rms, scratch.d_rows, gradient,
                             g.attn_norm);
}

template struct BlockParameters<float>;
template struct BlockParameters<double>;
template struct BlockParameters<bfloat16>;
template struct BlockActivations<float>;
template struct BlockActivations<double>;
template struct BlockActivations<bfloat16>;
template struct BlockScratch<float>;
template struct BlockScratch<double>;
template struct BlockScratch<bfloat16>;
template class TransformerBlock<float>;
template class TransformerBlock<double>;
template class TransformerBlock<bfloat16>;

}  // namespace knapformer
