// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

/// Returns scale / 2 * sum((y - target)^2) and writes its gradient, scale * (y - target), to dy.
/// All [rows x d]. For the mean over n elements in a world of ranks, scale is 2 / n. Fences `exec`:
/// the host reads the sum.
template <class T>
double squared_error(const Device& exec, const MatrixIn<T>& y, const MatrixIn<T>& target,
                     double scale, const Matrix<T>& dy);

}  // namespace knapformer::kernels
