// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

/// Returns the sum over rows of scales(row) / 2 * |y(row) - target(row)|^2 and writes its gradient,
/// scales(row) * (y - target), to dy. scales [rows], all others [rows x d]. Fences `exec`: the host
/// reads the sum.
template <class T>
double squared_error(const Device& exec, const MatrixIn<T>& y, const MatrixIn<T>& target,
                     const VectorIn<double>& scales, const Matrix<T>& dy);

}  // namespace knapformer::kernels
