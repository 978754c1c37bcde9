// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

/// y = x * sigmoid(x) (arXiv 1702.03118). x, y [rows x d]; y may be x itself.
template <class T>
void silu(const Device& exec, const MatrixIn<T>& x, const Matrix<T>& y);

/// Writes dx, which may be dy itself.
template <class T>
void silu_backward(const Device& exec, const MatrixIn<T>& x, const MatrixIn<T>& dy,
                   const Matrix<T>& dx);

}  // namespace knapformer::kernels
