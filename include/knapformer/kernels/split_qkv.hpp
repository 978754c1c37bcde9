// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

/// Which elements of a head RoPE rotates together: i and i + d_head / 2, or 2 i and 2 i + 1.
enum class RopePairs { kHalves, kNeighbours };

/// What a model chooses about the heads that split_qkv makes.
struct HeadOrder {
  RopePairs pairs = RopePairs::kHalves;  ///< of RoPE
  RowIndex rows = {};  ///< row i of qkv is row rows(i) of q, k, v and rope; none: row i
};

/// From qkv [rows x (heads + 2 * kv_heads) * d_head], ordered (q, k, v) with the heads one after
/// another inside each, to q [tokens x heads x d_head] and k, v [tokens x kv_heads x d_head], with
/// kv_heads at most heads. Each head of q and k is RMS-normalised, multiplied by its weight
/// [d_head] and rotated. `rope` [tokens x d_head] holds the cosines of all pairs, then their sines.
/// `inverse_rms` [rows x heads + kv_heads] keeps the factors of q, then of k. tokens are rows
/// unless `order` says where each row belongs; the other rows of q, k, v then stay as they are.
template <class T>
void split_qkv(const Device& exec, const MatrixIn<T>& qkv, const VectorIn<T>& q_weight,
               const VectorIn<T>& k_weight, const MatrixIn<Accumulate<T>>& rope, double eps,
               const HeadRows<T>& q, const HeadRows<T>& k, const HeadRows<T>& v,
               const Matrix<Accumulate<T>>& inverse_rms, const HeadOrder& order = {});

/// Writes dqkv, adds to dq_weight and dk_weight in a fixed order. dq and dk are used up: they end
/// as the contributions to the weights' gradients.
template <class T>
void split_qkv_backward(const Device& exec, const MatrixIn<T>& qkv, const VectorIn<T>& q_weight,
                        const VectorIn<T>& k_weight, const MatrixIn<Accumulate<T>>& rope,
                        const MatrixIn<Accumulate<T>>& inverse_rms, const HeadRows<T>& dq,
                        const HeadRows<T>& dk, const HeadRowsIn<T>& dv, const Matrix<T>& dqkv,
                        const Vector<Accumulate<T>>& dq_weight,
                        const Vector<Accumulate<T>>& dk_weight, const HeadOrder& order = {});

}  // namespace knapformer::kernels
