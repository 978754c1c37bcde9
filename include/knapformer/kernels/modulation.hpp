// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

// Adaptive layer norm (adaLN, arXiv 2212.09748): the rows of a chunk share a shift, a scale and a
// gate, which come from its conditioning. x, y [rows x d], shift, scale, gate [chunks x d].

/// y = (1 + scale) * (x - mean) * r + shift, with r = 1 / sqrt(variance + eps) of each row. mean
/// and r are kept in `moments` [rows x 2].
template <class T>
void modulated_norm(const Device& exec, const ChunkOffsets& offsets, const MatrixIn<T>& x,
                    const MatrixIn<T>& shift, const MatrixIn<T>& scale, double eps,
                    const Matrix<T>& y, const Matrix<Accumulate<T>>& moments);

/// Adds to dx, writes dshift and dscale, whose sums over rows are made in a fixed order.
template <class T>
void modulated_norm_backward(const Device& exec, const ChunkOffsets& offsets, const MatrixIn<T>& x,
                             const MatrixIn<T>& scale, const MatrixIn<Accumulate<T>>& moments,
                             const MatrixIn<T>& dy, const Matrix<T>& dx, const Matrix<T>& dshift,
                             const Matrix<T>& dscale);

/// y = residual + gate * x. y may be the residual or x itself.
template <class T>
void gated_residual(const Device& exec, const ChunkOffsets& offsets, const MatrixIn<T>& x,
                    const MatrixIn<T>& gate, const MatrixIn<T>& residual, const Matrix<T>& y);

/// Writes dx and dgate, whose sum over rows is made in a fixed order. The residual's gradient is dy
/// itself.
template <class T>
void gated_residual_backward(const Device& exec, const ChunkOffsets& offsets, const MatrixIn<T>& x,
                             const MatrixIn<T>& gate, const MatrixIn<T>& dy, const Matrix<T>& dx,
                             const Matrix<T>& dgate);

}  // namespace knapformer::kernels
