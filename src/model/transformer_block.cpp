// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <algorithm>
#include <knapformer/kernels/linear.hpp>
#include <knapformer/kernels/rms_norm.hpp>
#include <knapformer/kernels/split_qkv.hpp>
#include <knapformer/kernels/swiglu.hpp>
#include <knapformer/model/transformer_block.hpp>
#include <knapformer/plan/error.hpp>
#include <string>
#include <tuple>
#include <vector>

namespace knapformer {
namespace {

/// Starts an exchange or waits for it between two calls of the observer.
template <class T, class Step>
auto observed(const BlockContext<T>& context, const Step& step) {
  if (!context.observer) return step();
  context.exec.fence("KnapFormer::before_exchange");
  context.observer(true);
  auto result = step();
  context.exec.fence("KnapFormer::after_exchange");
  context.observer(false);
  return result;
}

/// The rows of head buffers that one of the two parts of attention works in.
struct HeadPart {
  const kernels::AttentionWork& work;
  std::int64_t first_row;

  template <class T>
  Matrix<T> of(const Matrix<T>& heads) const {
    const auto columns = static_cast<std::int64_t>(heads.extent(1));
    return Matrix<T>(heads.data() + first_row * columns, work.head_rows, columns);
  }
  template <class T>
  Vector<T> of(const Vector<T>& heads) const {
    return Vector<T>(heads.data() + first_row, work.head_rows);
  }
};
HeadPart unsplit_part(const RoutedAttention& all) { return {all.unsplit, 0}; }
HeadPart split_part(const RoutedAttention& all) { return {all.split, all.unsplit.head_rows}; }

template <class T>
void attend(const Device& exec, const HeadPart& part, const BlockActivations<T>& saved) {
  kernels::attention<T>(exec, part.work, part.of(saved.q), part.of(saved.k), part.of(saved.v),
                        part.of(saved.heads_out), part.of(saved.log_sum_exp));
}

template <class T>
void attend_backward(const Device& exec, const HeadPart& part, const BlockActivations<T>& saved,
                     const BlockScratch<T>& scratch) {
  const Vector<T> workspace(
      scratch.attention.data(),
      kernels::attention_workspace(part.work, static_cast<std::int64_t>(saved.q.extent(1))));
  kernels::attention_backward<T>(
      exec, part.work, part.of(saved.q), part.of(saved.k), part.of(saved.v),
      part.of(saved.heads_out), part.of(saved.log_sum_exp), part.of(scratch.d_heads_out), workspace,
      part.of(scratch.dq), part.of(scratch.dk), part.of(scratch.dv));
}

/// The same rows with their heads told apart.
template <class T>
HeadRows<T> as_heads(const Matrix<T>& rows, std::int64_t heads) {
  return HeadRows<T>(rows.data(), rows.extent(0), heads,
                     rows.extent(1) / static_cast<std::size_t>(heads));
}

}  // namespace

RoutedAttention make_routed_attention(const Device& exec, const Routing& routing, bool causal) {
  const auto problems = routing.attention_problems();
  const std::int64_t first_split = routing.unsplit_head_rows();
  std::vector<AttentionProblem> unsplit, split;
  for (AttentionProblem problem : problems) {
    const bool is_split = problem.offset >= first_split;
    if (is_split) problem.offset -= first_split;
    (is_split ? split : unsplit).push_back(problem);
  }
  return {kernels::make_attention_work(exec, unsplit, causal),
          kernels::make_attention_work(exec, split, causal)};
}

template <class T>
BlockParameters<T>::BlockParameters(const TransformerConfig& config, const Vector<T>& flat) {
  const std::vector<ParameterInfo> layout = block_parameters(config);
  const std::int64_t size = layout.back().offset + layout.back().size();
  if (static_cast<std::int64_t>(flat.extent(0)) != size) {
    throw Error("transformer block: " + std::to_string(flat.extent(0)) +
                " parameters given, expected " + std::to_string(size));
  }
  auto next = layout.begin();
  const auto vector = [&] {
    const ParameterInfo& info = *next++;
    return Vector<T>(flat.data() + info.offset, info.rows);
  };
  const auto matrix = [&] {
    const ParameterInfo& info = *next++;
    return Matrix<T>(flat.data() + info.offset, info.rows, info.columns);
  };
  attn_norm = vector();
  qkv_weight = matrix();
  qkv_bias = vector();
  q_norm = vector();
  k_norm = vector();
  attn_out_weight = matrix();
  attn_out_bias = vector();
  ffn_norm = vector();
  gate_up_weight = matrix();
  gate_up_bias = vector();
  down_weight = matrix();
  down_bias = vector();
}

template <class T>
void BlockActivations<T>::resize(const Device& exec, const TransformerConfig& config,
                                 const Routing& routing) {
  const std::int64_t rows = routing.routed_rows(), head_rows = routing.head_rows();
  const std::int64_t d = config.d_model, d_head = config.d_head();
  arena_.lay_out(exec, [&](auto& cursor) {
    attn_normed = cursor.matrix(rows, d);
    attn_inverse_rms = cursor.vector(rows);
    qkv = cursor.matrix(rows, 3 * d);
    qk_inverse_rms = cursor.matrix(rows, 2 * config.heads);
    for (Matrix<T>* heads : {&q, &k, &v, &heads_out}) *heads = cursor.matrix(head_rows, d_head);
    log_sum_exp = cursor.vector(head_rows);
    mixed = cursor.matrix(rows, d);
    middle = cursor.matrix(rows, d);
    ffn_normed = cursor.matrix(rows, d);
    ffn_inverse_rms = cursor.vector(rows);
    gate_up = cursor.matrix(rows, 2 * config.d_ffn);
    gated = cursor.matrix(rows, config.d_ffn);
  });
}

template <class T>
void BlockScratch<T>::resize(const Device& exec, const TransformerConfig& config,
                             const Routing& routing, const RoutedAttention& work) {
  const std::int64_t rows = routing.routed_rows(), head_rows = routing.head_rows();
  const std::int64_t d = config.d_model, d_head = config.d_head();
  arena_.lay_out(exec, [&](auto& cursor) {
    for (HeadRows<T>* view : {&q, &k, &v}) *view = cursor.head_rows(rows, config.heads, d_head);
    d_rows = cursor.matrix(rows, d);
    d_gated = cursor.matrix(rows, config.d_ffn);
    const Vector<T> wide = cursor.vector(rows * std::max(2 * config.d_ffn, 3 * d));
    d_gate_up = Matrix<T>(wide.data(), rows, 2 * config.d_ffn);
    d_qkv = Matrix<T>(wide.data(), rows, 3 * d);
    for (Matrix<T>* view : {&d_heads_out, &dq, &dk, &dv}) *view = cursor.matrix(head_rows, d_head);
    attention = cursor.vector(std::max(kernels::attention_workspace(work.unsplit, d_head),
                                       kernels::attention_workspace(work.split, d_head)));
  });
}

template <class T>
TransformerBlock<T>::TransformerBlock(const TransformerConfig& config, const Vector<T>& parameters,
                                      const Vector<T>& gradients)
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
  kernels::split_qkv(exec, saved.qkv, p.q_norm, p.k_norm, context.rope, config_.rms_eps, scratch.q,
                     scratch.k, scratch.v, saved.qk_inverse_rms);
  auto heads = observed(context, [&] {
    return context.routing.start_pre_attention_into(exec, std::tie(saved.q, saved.k, saved.v),
                                                    scratch.q, scratch.k, scratch.v);
  });
  attend(exec, unsplit_part(context.attention), saved);
  observed(context, [&] { return heads.wait(); });
  attend(exec, split_part(context.attention), saved);
  observed(context, [&] {
    return context.routing
        .start_post_attention_into(exec, std::tuple(as_heads(saved.mixed, config_.heads)),
                                   saved.heads_out)
        .wait();
  });
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
  const BlockParameters<T>& g = gradients_;
  kernels::linear_backward(exec, saved.gated, p.down_weight, gradient, scratch.d_gated,
                           g.down_weight, g.down_bias);
  kernels::swiglu_backward(exec, saved.gate_up, scratch.d_gated, scratch.d_gate_up);
  kernels::linear_backward(exec, saved.ffn_normed, p.gate_up_weight, scratch.d_gate_up,
                           scratch.d_rows, g.gate_up_weight, g.gate_up_bias);
  kernels::rms_norm_backward(exec, saved.middle, p.ffn_norm, saved.ffn_inverse_rms, scratch.d_rows,
                             gradient, g.ffn_norm);

  kernels::linear_backward(exec, saved.mixed, p.attn_out_weight, gradient, scratch.d_rows,
                           g.attn_out_weight, g.attn_out_bias);
  auto heads = observed(context, [&] {
    return context.routing.start_post_attention_adjoint_into(
        exec, std::tie(scratch.d_heads_out), as_heads(scratch.d_rows, config_.heads));
  });
  attend_backward(exec, unsplit_part(context.attention), saved, scratch);
  observed(context, [&] { return heads.wait(); });
  attend_backward(exec, split_part(context.attention), saved, scratch);
  observed(context, [&] {
    return context.routing
        .start_pre_attention_adjoint_into(exec, std::tie(scratch.q, scratch.k, scratch.v),
                                          scratch.dq, scratch.dk, scratch.dv)
        .wait();
  });
  kernels::split_qkv_backward(exec, saved.qkv, p.q_norm, p.k_norm, context.rope,
                              saved.qk_inverse_rms, scratch.q, scratch.k, scratch.v, scratch.d_qkv,
                              g.q_norm, g.k_norm);
  kernels::linear_backward(exec, saved.attn_normed, p.qkv_weight, scratch.d_qkv, scratch.d_rows,
                           g.qkv_weight, g.qkv_bias);
  kernels::rms_norm_backward(exec, x, p.attn_norm, saved.attn_inverse_rms, scratch.d_rows, gradient,
                             g.attn_norm);
}

template struct BlockParameters<float>;
template struct BlockParameters<double>;
template struct BlockActivations<float>;
template struct BlockActivations<double>;
template struct BlockScratch<float>;
template struct BlockScratch<double>;
template class TransformerBlock<float>;
template class TransformerBlock<double>;

}  // namespace knapformer
