// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/model/stream_block.hpp>

namespace knapformer {

/// The parameters of a single-stream block, or their gradients: linear1 by rows and linear2 by
/// columns, the part of attention and that of the MLP.
template <class U>
struct SingleStreamWeights {
  /// @{
  /// See single_stream_parameters for names and shapes.
  Matrix<U> mod_weight;
  Vector<U> mod_bias;
  Matrix<U> qkv_weight, up_weight;
  Vector<U> qkv_bias, up_bias;
  Vector<U> q_norm, k_norm;
  Matrix<U> proj_weight, down_weight;
  Vector<U> out_bias;
  /// @}
};

/// What the backward pass of a single-stream block needs beside its input.
template <class T>
struct SingleStreamActivations {
  /// Lays out what is below for this rank of `routing`; what was there before is lost.
  void resize(const Device& exec, const MMDiTConfig& config, const Routing& routing);

  Matrix<T> modulation;                  ///< [chunks x 3 d_model]
  Matrix<T> normed;                      ///< [rows x d_model]
  Matrix<Accumulate<T>> moments;         ///< [rows x 2]
  Matrix<T> qkv;                         ///< [rows x 3 d_model]
  Matrix<Accumulate<T>> qk_inverse_rms;  ///< [rows x 2 heads]
  HeadActivations<T> heads;              ///< around attention
  Matrix<T> mixed;                       ///< [rows x d_model]: heads.out, back with the tokens
  Matrix<T> hidden;                      ///< [rows x d_mlp], without its bias
  Matrix<T> activated;                   ///< [rows x d_mlp]
  Matrix<T> out;                         ///< [rows x d_model]

  std::int64_t bytes() const { return arena_.bytes(); }  ///< of device memory held

 private:
  Arena<T> arena_;
};

/// The single-stream block of FLUX, with the attention and the MLP beside each other:
///
///     shift, scale, gate = modulation(silu(conditioning))
///     q, k, v, hidden    = linear1((1 + scale) * norm(x) + shift)
///     y = x + gate * linear2(attention(rope(norm(q)), rope(norm(k)), v), gelu(hidden))
///
/// with the norms of DoubleStreamBlock. x and y [routed_rows x d_model] are in routed order.
/// Collective where heads are exchanged. Double, float and bfloat16.
template <class T>
class SingleStreamBlock {
 public:
  /// `parameters` and `gradients` are flat (see single_stream_parameters) and stay the caller's.
  SingleStreamBlock(const MMDiTConfig& config, const Vector<T>& parameters,
                    const Vector<Accumulate<T>>& gradients);

  /// Everything up to the gate: fills `saved` from x. Collective.
  void activate(const StreamContext<T>& context, const kernels::MatrixIn<T>& x,
                const StreamScratch<T>& scratch, const SingleStreamActivations<T>& saved) const;
  /// The gate: y from x and what activate() left.
  void finish(const StreamContext<T>& context, const kernels::MatrixIn<T>& x,
              const SingleStreamActivations<T>& saved, const Matrix<T>& y) const;
  /// `gradient` is dy and becomes dx. Adds to the gradients. Collective.
  void backward(const StreamContext<T>& context, const kernels::MatrixIn<T>& x,
                const SingleStreamActivations<T>& saved, const StreamScratch<T>& scratch,
                const Matrix<T>& gradient) const;

 private:
  MMDiTConfig config_;
  SingleStreamWeights<T> parameters_;
  SingleStreamWeights<Accumulate<T>> gradients_;
};

}  // namespace knapformer
