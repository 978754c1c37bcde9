// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

/// y = x weight^T + bias, row by row: x [rows x in], weight [out x in], bias [out], y [rows x out].
template <class T>
void linear(const Device& exec, const MatrixIn<T>& x, const MatrixIn<T>& weight,
            const VectorIn<T>& bias, const Matrix<T>& y);

/// y = residual + x weight^T + bias. y may be the residual itself.
template <class T>
void linear_residual(const Device& exec, const MatrixIn<T>& x, const MatrixIn<T>& weight,
                     const VectorIn<T>& bias, const MatrixIn<T>& residual, const Matrix<T>& y);

/// dx = keep dx + dy weight, where dx is not read with keep = 0; adds to dweight [out x in] and
/// dbias [out]. The residual's gradient is dy itself.
template <class T>
void linear_backward(const Device& exec, const MatrixIn<T>& x, const MatrixIn<T>& weight,
                     const MatrixIn<T>& dy, const Matrix<T>& dx,
                     const Matrix<Accumulate<T>>& dweight, const Vector<Accumulate<T>>& dbias,
                     Accumulate<T> keep = 0);

}  // namespace knapformer::kernels
