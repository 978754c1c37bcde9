// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

/// y = weight * x * r, with r = 1 / sqrt(mean(x^2) + eps) of each row, which is kept in
/// `inverse_rms` [rows]. x, y [rows x d], weight [d].
template <class T>
void rms_norm(const Device& exec, const MatrixIn<T>& x, const VectorIn<T>& weight, double eps,
              const Matrix<T>& y, const Vector<Accumulate<T>>& inverse_rms);

/// Adds to dx [rows x d] and dweight [d]; the sum over rows is made in a fixed order.
template <class T>
void rms_norm_backward(const Device& exec, const MatrixIn<T>& x, const VectorIn<T>& weight,
                       const VectorIn<Accumulate<T>>& inverse_rms, const MatrixIn<T>& dy,
                       const Matrix<T>& dx, const Vector<Accumulate<T>>& dweight);

}  // namespace knapformer::kernels
