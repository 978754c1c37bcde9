// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>
#include <knapformer/model/arena.hpp>
#include <knapformer/model/routed_attention.hpp>
#include <knapformer/model/transformer_config.hpp>
#include <knapformer/route/routing.hpp>

namespace knapformer {

/// The parameters of one block, or their gradients: views into a flat array.
template <class T>
struct BlockParameters {
  /// Throws Error unless `flat` has the size of block_parameters(config).
  BlockParameters(const TransformerConfig& config, const Vector<T>& flat);

  /// @{
  /// See block_parameters for names and shapes.
  /// @{
  /// See block_parameters for names and shapes.
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
  /// @}
  /// @}
};

/// What the backward pass of a block needs beside its input. Reused from step to step.
template <class T>
struct BlockActivations {
  /// Lays out what is below for this rank of `routing`; what was there before is lost.
  void resize(const Device& exec, const TransformerConfig& config, const Routing& routing);
  /// Of device memory held.
  std::int64_t bytes() const { return arena_.bytes(); }

  Matrix<T> attn_normed;                   ///< [rows x d_model]
  Vector<Accumulate<T>> attn_inverse_rms;  ///< [rows]
  Matrix<T> qkv;                           ///< [rows x d_qkv]
  Matrix<Accumulate<T>> qk_inverse_rms;    ///< [rows x heads + kv_heads]
  HeadActivations<T> heads;                ///< around attention
  Matrix<T> mixed;                         ///< [rows x d_model]: heads.out, back with the tokens
  Matrix<T> middle;                        ///< [rows x d_model]: after attention and its residual
  Matrix<T> ffn_normed;                    ///< [rows x d_model]
  Vector<Accumulate<T>> ffn_inverse_rms;   ///< [rows]
  Matrix<T> gate_up;                       ///< [rows x 2 d_ffn]
  Matrix<T> gated;                         ///< [rows x d_ffn]

 private:
  Arena<T> arena_;
};

/// Memory that one block at a time works in. Reused by all blocks, from step to step.
template <class T>
struct BlockScratch {
  /// Lays out what is below for this rank of `routing`; what was there before is lost.
  void resize(const Device& exec, const TransformerConfig& config, const Routing& routing,
              const RoutedAttention& attention);
  /// Of device memory held.
  std::int64_t bytes() const { return arena_.bytes(); }

  HeadScratch<T> heads;  ///< around attention
  Matrix<T> d_rows;      ///< [rows x d_model]
  Matrix<T> d_gated;     ///< [rows x d_ffn]
  Matrix<T> d_gate_up;   ///< [rows x 2 d_ffn]
  Matrix<T> d_qkv;       ///< [rows x d_qkv], in the same memory

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
/// this rank; its members are collective over the group where they exchange heads. Double, float
/// and bfloat16.
template <class T>
class TransformerBlock {
 public:
  /// `parameters` and `gradients` are flat (see block_parameters) and stay the caller's.
  TransformerBlock(const TransformerConfig& config, const Vector<T>& parameters,
                   const Vector<Accumulate<T>>& gradients);

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
  BlockParameters<Accumulate<T>> gradients_;
};

}  // namespace knapformer
