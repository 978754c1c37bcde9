// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <cblas.h>

#include <algorithm>
#include <initializer_list>
#include <knapformer/plan/error.hpp>
#include <limits>
#include <string>

#include "kernels/blas.hpp"

namespace knapformer::kernels {
namespace {

CBLAS_TRANSPOSE cblas(Transpose transpose) {
  return transpose == Transpose::kYes ? CblasTrans : CblasNoTrans;
}

void require_int(std::initializer_list<std::int64_t> numbers) {
  const std::int64_t largest = std::max(numbers);
  if (largest > std::numeric_limits<int>::max()) {
    throw Error("gemm: an extent or row distance of " + std::to_string(largest) +
                " is beyond the BLAS's 32-bit int; use smaller chunks");
  }
}

/// CBLAS wants leading dimensions of at least 1 and of at least a row, also of empty matrices.
int leading(std::int64_t distance, std::int64_t row) {
  return static_cast<int>(std::max({distance, row, std::int64_t{1}}));
}

template <class T, class Gemm>
void call(Gemm gemm, Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n,
          std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
          T beta, T* c, std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  require_int({m, n, k, lda, ldb, ldc});
  gemm(CblasRowMajor, cblas(transpose_a), cblas(transpose_b), static_cast<int>(m),
       static_cast<int>(n), static_cast<int>(k), alpha, a,
       leading(lda, transpose_a == Transpose::kYes ? m : k), b,
       leading(ldb, transpose_b == Transpose::kYes ? k : n), beta, c, leading(ldc, n));
}

}  // namespace

void host_gemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n,
               std::int64_t k, float alpha, const float* a, std::int64_t lda, const float* b,
               std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  call(cblas_sgemm, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void host_gemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n,
               std::int64_t k, double alpha, const double* a, std::int64_t lda, const double* b,
               std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
  call(cblas_dgemm, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

std::string host_gemm_library() {
#ifdef OPENBLAS_VERSION
  return openblas_get_config();
#else
  return "CBLAS";
#endif
}

}  // namespace knapformer::kernels
