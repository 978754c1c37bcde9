// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <knapformer/comm/bfloat16.hpp>
#include <knapformer/comm/device.hpp>
#include <type_traits>

namespace knapformer {

/// Elements one after another.
template <class T>
using Vector = Kokkos::View<T*, Device>;

/// Row-major. A view with padding between rows is welcome wherever only a Matrix is asked for.
template <class T>
using Matrix = Kokkos::View<T**, Kokkos::LayoutRight, Device>;

/// [rows x heads x d_head], packed.
template <class T>
using HeadRows = Kokkos::View<T***, Kokkos::LayoutRight, Device>;

/// Integer coordinates of every token: [rows x 3].
using Positions = Kokkos::View<std::int32_t* [3], Kokkos::LayoutRight, Device>;

/// Rows of another view, one for each row of this one.
using RowIndex = Kokkos::View<const std::int64_t*, Device>;

/// The first row of every chunk, then the number of rows: [chunks + 1]. A chunk may have no rows.
using ChunkOffsets = Kokkos::View<const std::int64_t*, Device>;

namespace kernels {

// T is double, float or bfloat16. What is computed from an element on the way to another is of
// Accumulate<T>; so are statistics of rows and gradients of parameters, which are sums of many.

// Inputs of kernels. They take no part in the deduction of T, so that views of non-const elements
// convert; T comes from the outputs.
/// What a kernel reads.
template <class T>
using VectorIn = std::type_identity_t<Vector<const T>>;
/// What a kernel reads.
template <class T>
using MatrixIn = std::type_identity_t<Matrix<const T>>;
/// What a kernel reads.
template <class T>
using HeadRowsIn = std::type_identity_t<HeadRows<const T>>;

}  // namespace kernels
}  // namespace knapformer
