// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

/// y = gelu(x + bias) in the form with tanh (arXiv 1606.08415): z * sigmoid(sqrt(8 / pi) * (z +
/// 0.044715 z^3)). x, y [rows x d], bias [d]. With x from gemm, every element is touched once.
template <class T>
void bias_gelu(const Device& exec, const MatrixIn<T>& x, const VectorIn<T>& bias,
               const Matrix<T>& y);

/// Writes dx. The gradient of the bias is the sum of its rows, as linear_backward adds it up.
template <class T>
void bias_gelu_backward(const Device& exec, const MatrixIn<T>& x, const VectorIn<T>& bias,
                        const MatrixIn<T>& dy, const Matrix<T>& dx);

}  // namespace knapformer::kernels
