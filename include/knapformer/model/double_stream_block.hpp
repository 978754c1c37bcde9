// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <knapformer/model/stream_block.hpp>

namespace knapformer {

/// The parameters of one stream of a double-stream block, or their gradients.
template <class U>
struct DoubleStreamWeights {
  /// @{
  /// See double_stream_parameters for names and shapes.
  Matrix<U> mod_weight;
  Vector<U> mod_bias;
  Matrix<U> qkv_weight;
  Vector<U> qkv_bias;
  Vector<U> q_norm, k_norm;
  Matrix<U> proj_weight;
  Vector<U> proj_bias;
  Matrix<U> up_weight;
  Vector<U> up_bias;
  Matrix<U> down_weight;
  Vector<U> down_bias;
  /// @}
};

/// What the backward pass of a double-stream block needs beside its input. Rows are in stream
/// order, modulations are those of the text stream, then those of the image stream.
template <class T>
struct DoubleStreamActivations {
  /// Lays out what is below for this rank of `routing`; what was there before is lost.
  void resize(const Device& exec, const MMDiTConfig& config, const Routing& routing);

  std::array<Matrix<T>, 2> modulation;   ///< [chunks x 6 d_model]
  Matrix<T> attn_normed;                 ///< [rows x d_model]
  Matrix<Accumulate<T>> attn_moments;    ///< [rows x 2]
  Matrix<T> qkv;                         ///< [rows x 3 d_model]
  Matrix<Accumulate<T>> qk_inverse_rms;  ///< [rows x 2 heads]
  HeadActivations<T> heads;              ///< around attention
  Matrix<T> mixed;                       ///< [rows x d_model]: heads.out, back with the tokens
  Matrix<T> projected;                   ///< [rows x d_model]
  Matrix<T> middle;                      ///< [rows x d_model]: after attention and its residual
  Matrix<T> mlp_normed;                  ///< [rows x d_model]
  Matrix<Accumulate<T>> mlp_moments;     ///< [rows x 2]
  Matrix<T> hidden;                      ///< [rows x d_mlp], without its bias
  Matrix<T> activated;                   ///< [rows x d_mlp]
  Matrix<T> mlp_out;                     ///< [rows x d_model]

  std::int64_t bytes() const { return arena_.bytes(); }  ///< of device memory held

 private:
  Arena<T> arena_;
};

/// The double-stream block of MMDiT (arXiv 2403.03206, as in FLUX). For text and image tokens,
/// each with weights of its own:
///
///     shift1, scale1, gate1, shift2, scale2, gate2 = mod(silu(conditioning))
///     q, k, v = qkv((1 + scale1) * norm(x) + shift1)
///     middle  = x + gate1 * proj(attention(rope(norm(q)), rope(norm(k)), v))
///     y       = middle + gate2 * mlp((1 + scale2) * norm(middle) + shift2)
///
/// with LayerNorm over rows, RMSNorm over the heads of q and k, GELU in the MLP, and attention over
/// the text and image tokens of a sequence together. x and y [routed_rows x d_model] are in stream
/// order, so that each stream's products are made at once. Collective where heads are exchanged.
/// Double, float and bfloat16.
template <class T>
class DoubleStreamBlock {
 public:
  /// `parameters` and `gradients` are flat (see double_stream_parameters) and stay the caller's.
  DoubleStreamBlock(const MMDiTConfig& config, const Vector<T>& parameters,
                    const Vector<Accumulate<T>>& gradients);

  /// Everything up to the last gate: fills `saved` from x. Collective.
  void activate(const StreamContext<T>& context, const kernels::MatrixIn<T>& x,
                const StreamScratch<T>& scratch, const DoubleStreamActivations<T>& saved) const;
  /// The last gate: y from what activate() left.
  void finish(const StreamContext<T>& context, const DoubleStreamActivations<T>& saved,
              const Matrix<T>& y) const;
  /// `gradient` is dy and becomes dx. Adds to the gradients. Collective.
  void backward(const StreamContext<T>& context, const kernels::MatrixIn<T>& x,
                const DoubleStreamActivations<T>& saved, const StreamScratch<T>& scratch,
                const Matrix<T>& gradient) const;

 private:
  MMDiTConfig config_;
  std::array<DoubleStreamWeights<T>, 2> parameters_;  // of text, then of image
  std::array<DoubleStreamWeights<Accumulate<T>>, 2> gradients_;
};

}  // namespace knapformer
