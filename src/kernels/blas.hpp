// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <knapformer/comm/bfloat16.hpp>
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

/// The same of bfloat16, summed in float, by oneDNN. False, and nothing is done, where oneDNN is
/// not built in or has nothing fast for this CPU.
template <class C>
bool onednn_gemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n,
                 std::int64_t k, float alpha, const bfloat16* a, std::int64_t lda,
                 const bfloat16* b, std::int64_t ldb, float beta, C* c, std::int64_t ldc);

/// Of the oneDNN that is built in; empty without.
std::string onednn_version();

/// The same, by CBLAS in float on tiles that fit a cache.
template <class C>
void panel_gemm(const Kokkos::DefaultHostExecutionSpace& exec, Transpose transpose_a,
                Transpose transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                const bfloat16* a, std::int64_t lda, const bfloat16* b, std::int64_t ldb,
                float beta, C* c, std::int64_t ldc);

/// See gemm_library.
std::string host_gemm_library();

}  // namespace knapformer::kernels
