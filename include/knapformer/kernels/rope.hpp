// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

/// Rotary position embedding: the first coordinate p of every token gives the angles
/// p * base^(-2 i / d_head), i < d_head / 2 (arXiv 2104.09864). table [rows x d_head]: the cosines,
/// then the sines.
template <class T>
void rope_table(const Device& exec, const Positions& positions, double base,
                const Matrix<T>& table);

}  // namespace knapformer::kernels
