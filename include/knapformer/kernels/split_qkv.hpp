// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

/// From qkv [rows x 3 * heads * d_head], ordered (q, k, v) with the heads one after another inside
/// each, to q, k, v [rows x heads x d_head]. Each head of q and k is RMS-normalised, multiplied by
/// its weight [d_head] and rotated: elements i and i + d_head / 2 are a pair. `rope` [rows x
/// d_head] holds the cosines, then the sines. `inverse_rms` [rows x 2 * heads] keeps the factors of
/// q, then of k.
template <class T>
void split_qkv(const Device& exec, const MatrixIn<T>& qkv, const VectorIn<T>& q_weight,
               const VectorIn<T>& k_weight, const MatrixIn<T>& rope, double eps,
               const HeadRows<T>& q, const HeadRows<T>& k, const HeadRows<T>& v,
               const Matrix<T>& inverse_rms);

/// Writes dqkv, adds to dq_weight and dk_weight in a fixed order. dq and dk are used up: they end
/// as the contributions to the weights' gradients.
template <class T>
void split_qkv_backward(const Device& exec, const MatrixIn<T>& qkv, const VectorIn<T>& q_weight,
                        const VectorIn<T>& k_weight, const MatrixIn<T>& rope,
                        const MatrixIn<T>& inverse_rms, const HeadRows<T>& dq,
                        const HeadRows<T>& dk, const HeadRowsIn<T>& dv, const Matrix<T>& dqkv,
                        const Vector<T>& dq_weight, const Vector<T>& dk_weight);

}  // namespace knapformer::kernels
