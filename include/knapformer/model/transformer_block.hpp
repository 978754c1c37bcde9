// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <functional>
#include <knapformer/kernels/attention.hpp>
#include <knapformer/kernels/types.hpp>
#include <knapformer/model/arena.hpp>
#include <knapformer/model/transformer_config.hpp>
#include <knapformer/route/routing.hpp>

namespace knapformer {

/// Told before (true) and after (false) this rank starts or waits for an exchange around attention;
/// the device is idle both times.
using ExchangeObserver = std::function<void(bool begins)>;

/// The attention of a routing in two parts: sequences that this rank has for itself, whose heads
/// are there while others still travel, and the rest.
struct RoutedAttention {
  kernels::AttentionWork unsplit;  ///< in the first unsplit.head_rows rows of head buffers
  kernels::AttentionWork split;    ///< in the others
};
RoutedAttention make_routed_attention(const Device& exec, const Routing& routing, bool causal);

/// What all blocks share for one packed batch.
template <class T>
struct BlockContext {
  const Device& exec;
  const Routing& routing;
  const RoutedAttention& attention;
  kernels::MatrixIn<T> rope;  ///< [routed_rows x d_head], see kernels::rope_table
  const ExchangeObserver& observer;
};

/// The parameters of one block, or their gradients: views into a flat array.
template <class T>
struct BlockParameters {
  /// Throws Error unless `flat` has the size of block_parameters(config).
  BlockParameters(const TransformerConfig& config, const Vector<T>& flat);

  Vector<T> attn_norm;
  Matrix<T> qkv_weight;
  Vector<T> qkv_bias;
  Vector<T> q_norm, k_norm;
  Matrix<T> attn_out_weight;
  Vector<T> attn_out_bias;
  Vector<T> ffn_norm;
  Matrix<T> gate_up_weight;
  Vector<T> gate_up_bias;
  Matrix<T> down_weight;
  Vector<T> down_bias;
};

/// What the backward pass of a block needs beside its input. Reused from step to step.
template <class T>
struct BlockActivations {
  void resize(const Device& exec, const TransformerConfig& config, const Routing& routing);

  Matrix<T> attn_normed;       // [rows x d_model]
  Vector<T> attn_inverse_rms;  // [rows]
  Matrix<T> qkv;               // [rows x 3 d_model]
  Matrix<T> qk_inverse_rms;    // [rows x 2 heads]
  Matrix<T> q, k, v;           // [head_rows x d_head]
  Matrix<T> heads_out;         // [head_rows x d_head]
  Vector<T> log_sum_exp;       // [head_rows]
  Matrix<T> mixed;             // [rows x d_model]: heads_out, back with the tokens
  Matrix<T> middle;            // [rows x d_model]: after attention and its residual
  Matrix<T> ffn_normed;        // [rows x d_model]
  Vector<T> ffn_inverse_rms;   // [rows]
  Matrix<T> gate_up;           // [rows x 2 d_ffn]
  Matrix<T> gated;             // [rows x d_ffn]

 private:
  Arena<T> arena_;
};

/// Memory that one block at a time works in. Reused by all blocks, from step to step.
template <class T>
struct BlockScratch {
  void resize(const Device& exec, const TransformerConfig& config, const Routing& routing,
              const RoutedAttention& attention);

  HeadRows<T> q, k, v;                // [rows x heads x d_head]; dq, dk, dv in the backward pass
  Matrix<T> d_rows;                   // [rows x d_model]
  Matrix<T> d_gated;                  // [rows x d_ffn]
  Matrix<T> d_gate_up;                // [rows x 2 d_ffn]
  Matrix<T> d_qkv;                    // [rows x 3 d_model], in the same memory
  Matrix<T> d_heads_out, dq, dk, dv;  // [head_rows x d_head]
  Vector<T> attention;

 private:
  Arena<T> arena_;
};

/// The pre-norm transformer block:
///
///     q, k, v  = qkv_proj(norm(x))
///     middle   = x + attn_out(attention(rope(norm(q)), rope(norm(k)), v))
///     gate, up = gate_up(norm(middle))
///     y        = middle + down(silu(gate) * up)
///
/// with RMSNorm everywhere, over rows and over the heads of q and k. Computes the routed rows of
/// this rank; its members are collective over the group where they exchange heads. Double and
/// float.
template <class T>
class TransformerBlock {
 public:
  /// `parameters` and `gradients` are flat (see block_parameters) and stay the caller's.
  TransformerBlock(const TransformerConfig& config, const Vector<T>& parameters,
                   const Vector<T>& gradients);

  /// Everything up to the last layer: fills `saved` from x [routed_rows x d_model]. Collective.
  void activate(const BlockContext<T>& context, const kernels::MatrixIn<T>& x,
                BlockScratch<T>& scratch, BlockActivations<T>& saved) const;
  /// The last layer: y from what activate() left.
  void finish(const BlockContext<T>& context, const BlockActivations<T>& saved,
              const Matrix<T>& y) const;
  /// `gradient` is dy and becomes dx. Adds to the gradients. Collective.
  void backward(const BlockContext<T>& context, const kernels::MatrixIn<T>& x,
                const BlockActivations<T>& saved, BlockScratch<T>& scratch,
                const Matrix<T>& gradient) const;

 private:
  TransformerConfig config_;
  BlockParameters<T> parameters_;
  BlockParameters<T> gradients_;
};

}  // namespace knapformer
