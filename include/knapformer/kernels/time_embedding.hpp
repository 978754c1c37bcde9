// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

/// Sinusoids of times, as of positions in arXiv 1706.03762: time t gives the angles
/// factor * t * period^(-i / half), i < half = width / 2. out [times x width]: the cosines, then
/// the sines. The width is even.
template <class T>
void time_embedding(const Device& exec, const VectorIn<Accumulate<T>>& times, double factor,
                    double period, const Matrix<T>& out);

}  // namespace knapformer::kernels
