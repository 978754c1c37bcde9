// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/kernels/gemm.hpp>

namespace knapformer::kernels {

/// c = alpha op(a) op(b) + beta c on row-major host memory, by CBLAS, on the calling thread when
/// that is inside a parallel region. Leading dimensions are distances between rows. Throws Error
/// when a number is beyond the BLAS's int.
void host_gemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n,
               std::int64_t k, float alpha, const float* a, std::int64_t lda, const float* b,
               std::int64_t ldb, float beta, float* c, std::int64_t ldc);
void host_gemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n,
               std::int64_t k, double alpha, const double* a, std::int64_t lda, const double* b,
               std::int64_t ldb, double beta, double* c, std::int64_t ldc);

/// See gemm_library.
std::string host_gemm_library();

}  // namespace knapformer::kernels
