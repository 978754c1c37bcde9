// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/model/arena.hpp>
#include <knapformer/model/mmdit_config.hpp>
#include <knapformer/model/stream_order.hpp>

namespace knapformer {

/// The parameters of the ends of an MMDiT, or their gradients.
template <class U>
struct MMDiTEndsWeights {
  /// @{
  /// See mmdit_ends_parameters for names and shapes.
  Matrix<U> image_weight;
  Vector<U> image_bias;
  Matrix<U> text_weight;
  Vector<U> text_bias;
  Matrix<U> time_in_weight;
  Vector<U> time_in_bias;
  Matrix<U> time_out_weight;
  Vector<U> time_out_bias;
  Matrix<U> mod_weight;
  Vector<U> mod_bias;
  Matrix<U> linear_weight;
  Vector<U> linear_bias;
  /// @}
};

/// What the ends of an MMDiT keep for the backward pass, and what that works in. `order` is that of
/// the rows.
template <class T>
struct MMDiTEndsActivations {
  /// Lays out what is below for the sequences and rows of `order`; what was there before is lost.
  void resize(const Device& exec, const MMDiTConfig& config, const StreamOrder& order);

  Matrix<T> sinusoids;            ///< [sequences x d_time]
  Matrix<T> time_hidden;          ///< [sequences x d_model]
  Matrix<T> time_activated;       ///< [sequences x d_model]
  Matrix<T> vec;                  ///< [sequences x d_model]
  Matrix<T> conditioning;         ///< [sequences x d_model]: its SiLU
  Matrix<T> d_conditioning;       ///< [sequences x d_model]
  Matrix<T> sorted;               ///< [rows x d_model], in stream order; its gradient later
  Matrix<T> image;                ///< [image rows x d_model]: what the blocks gave
  Matrix<T> modulation;           ///< [sequences x 2 d_model]
  Matrix<T> d_modulation;         ///< [sequences x 2 d_model]
  Matrix<T> normed;               ///< [image rows x d_model]
  Matrix<Accumulate<T>> moments;  ///< [image rows x 2]
  Matrix<T> d_normed;             ///< [image rows x d_model]
  Matrix<T> d_image;              ///< [image rows x d_model]
  Matrix<T> d_sequences;          ///< [sequences x d_model]
  Matrix<T> d_sinusoids;          ///< [sequences x d_time]

  std::int64_t bytes() const { return arena_.bytes(); }  ///< of device memory held

 private:
  Arena<T> arena_;
};

/// What is before and after the blocks of an MMDiT:
///
///     vec = out_layer(silu(in_layer(sinusoids(times))))
///     x   = img_in(patches), txt_in(text)
///     out = linear((1 + scale) * norm(y) + shift),  shift, scale = modulation(silu(vec))
///
/// Rows are packed, with the sequences as chunks, on the rank that loaded them. Double, float and
/// bfloat16.
template <class T>
class MMDiTEnds {
 public:
  /// `parameters` and `gradients` are flat (see mmdit_ends_parameters) and stay the caller's.
  MMDiTEnds(const MMDiTConfig& config, const Vector<T>& parameters,
            const Vector<Accumulate<T>>& gradients);

  /// Fills x [rows x d_model] and saved.conditioning.
  void embed(const Device& exec, const StreamOrder& order, const kernels::MatrixIn<T>& patches,
             const kernels::MatrixIn<T>& text, const kernels::VectorIn<Accumulate<T>>& times,
             const MMDiTEndsActivations<T>& saved, const Matrix<T>& x) const;
  /// From y [rows x d_model] to out [image rows x d_patch].
  void predict(const Device& exec, const StreamOrder& order, const kernels::MatrixIn<T>& y,
               const MMDiTEndsActivations<T>& saved, const Matrix<T>& out) const;

  /// Writes dy, 0 for text, and keeps the gradient of the modulation. Adds to the gradients.
  void predict_backward(const Device& exec, const StreamOrder& order,
                        const kernels::MatrixIn<T>& d_out, const MMDiTEndsActivations<T>& saved,
                        const Matrix<T>& dy) const;
  /// From the gradients of x and, in saved.d_conditioning, of what the blocks made of the
  /// conditioning, to which the modulation's part is added. Writes d_patches and d_text, adds to
  /// the gradients. After predict_backward.
  void embed_backward(const Device& exec, const StreamOrder& order, const kernels::MatrixIn<T>& dx,
                      const kernels::MatrixIn<T>& patches, const kernels::MatrixIn<T>& text,
                      const MMDiTEndsActivations<T>& saved, const Matrix<T>& d_patches,
                      const Matrix<T>& d_text) const;

 private:
  MMDiTConfig config_;
  MMDiTEndsWeights<T> parameters_;
  MMDiTEndsWeights<Accumulate<T>> gradients_;
};

}  // namespace knapformer
