// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>
#include <string>

namespace knapformer::kernels {

/// Whether a factor is transposed.
enum class Transpose { kNo, kYes };

/// c = alpha op(a) op(b) + beta c, with op(a) [m x k], op(b) [k x n], c [m x n]. Any extent may be
/// zero; with k = 0, c is scaled. With beta = 0, c is not read. bfloat16 is summed in float, and c
/// may be float: gemm<float, bfloat16>. By CBLAS on the host, which fences `exec` first, and by
/// cuBLAS on CUDA; bfloat16 on the host by oneDNN, or converted to float in tiles where there is
/// none that knows the CPU. Throws Error when the shapes do not match or an extent is beyond what
/// the BLAS counts.
template <class C, class T = C>
void gemm(const Device& exec, Transpose transpose_a, Transpose transpose_b, Accumulate<C> alpha,
          const MatrixIn<T>& a, const MatrixIn<T>& b, Accumulate<C> beta, const Matrix<C>& c);

/// The library that multiplies matrices here, for people to read.
std::string gemm_library();

}  // namespace knapformer::kernels
