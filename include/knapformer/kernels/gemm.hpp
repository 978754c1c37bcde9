// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>
#include <string>

namespace knapformer::kernels {

enum class Transpose { kNo, kYes };

/// c = alpha op(a) op(b) + beta c, with op(a) [m x k], op(b) [k x n], c [m x n]. Any extent may be
/// zero; with k = 0, c is scaled. With beta = 0, c is not read. By CBLAS on the host, which fences
/// `exec` first, and by cuBLAS on CUDA. Throws Error when the shapes do not match or an extent is
/// beyond what the BLAS counts.
template <class T>
void gemm(const Device& exec, Transpose transpose_a, Transpose transpose_b,
          std::type_identity_t<T> alpha, const MatrixIn<T>& a, const MatrixIn<T>& b,
          std::type_identity_t<T> beta, const Matrix<T>& c);

/// The library that multiplies matrices here, for people to read.
std::string gemm_library();

}  // namespace knapformer::kernels
