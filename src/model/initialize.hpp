// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/kernels/types.hpp>

namespace knapformer::model {

/// The standard deviation that weights are drawn with.
constexpr double kDeviation = 0.02;

/// Draws values[i] around 0 with the standard deviation given, from `seed` and the number
/// first_counter + i, as the sum of four uniform numbers. Exact up to one rounding, so the same
/// everywhere.
template <class T>
void fill_random(const Device& exec, std::uint64_t seed, std::uint64_t first_counter,
                 double deviation, const Vector<T>& values);

}  // namespace knapformer::model
