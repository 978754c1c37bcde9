// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <cstdint>
#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

/// How many elements of a head each coordinate rotates: even numbers that add up to d_head.
using RopeAxes = std::array<std::int64_t, 3>;

/// Rotary position embedding (arXiv 2104.09864): coordinate p of a token, on an axis of width w,
/// gives the angles p * base^(-2 i / w), i < w / 2, one for each pair of elements, axis after axis.
/// table [rows x d_head]: the cosines, then the sines. Throws Error unless the axes fit d_head.
template <class T>
void rope_table(const Device& exec, const Positions& positions, double base, const RopeAxes& axes,
                const Matrix<T>& table);

}  // namespace knapformer::kernels
