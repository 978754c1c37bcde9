// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <knapformer/kernels/gemm.hpp>
#include <string>

#ifdef KOKKOS_ENABLE_CUDA
#include <cublas_v2.h>

#include <memory>
#endif

#include "kernels/blas.hpp"
#include "kernels/check.hpp"

namespace knapformer::kernels {

#ifdef KOKKOS_ENABLE_CUDA
namespace {

void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error(std::string("cuBLAS: ") + cublasGetStatusString(status));
  }
}

/// cuBLAS takes long to make a handle and wants one per thread. Freed before Kokkos is finalised.
cublasHandle_t handle_on(const Kokkos::Cuda& exec) {
  thread_local cublasHandle_t handle = nullptr;
  if (handle == nullptr) {
    check(cublasCreate(&handle));
    Kokkos::push_finalize_hook([own = handle] { cublasDestroy(own); });
  }
  check(cublasSetStream(handle, exec.cuda_stream()));
  return handle;
}

// A row-major product is the column-major product of the transposes: b and a change places.
template <class C, class T, class Gemm>
void call(Gemm gemm, const Kokkos::Cuda& exec, Transpose transpose_a, Transpose transpose_b,
          std::int64_t m, std::int64_t n, std::int64_t k, Accumulate<C> alpha, const T* a,
          std::int64_t lda, const T* b, std::int64_t ldb, Accumulate<C> beta, C* c,
          std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  const auto op = [](Transpose t) { return t == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  check(gemm(handle_on(exec), op(transpose_b), op(transpose_a), n, m, k, &alpha, b,
             Kokkos::max<std::int64_t>(ldb, 1), a, Kokkos::max<std::int64_t>(lda, 1), &beta, c,
             ldc));
}

}  // namespace

std::string gemm_library() {
  int version = 0;
  return cublasGetVersion(handle_on(Device()), &version) == CUBLAS_STATUS_SUCCESS
             ? "cuBLAS " + std::to_string(version)
             : "cuBLAS";
}

static void device_gemm(const Kokkos::Cuda& exec, Transpose ta, Transpose tb, std::int64_t m,
                        std::int64_t n, std::int64_t k, float alpha, const float* a,
                        std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                        std::int64_t ldc) {
  call(cublasSgemm_64, exec, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
static void device_gemm(const Kokkos::Cuda& exec, Transpose ta, Transpose tb, std::int64_t m,
                        std::int64_t n, std::int64_t k, double alpha, const double* a,
                        std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c,
                        std::int64_t ldc) {
  call(cublasDgemm_64, exec, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
template <class C>
static void device_gemm(const Kokkos::Cuda& exec, Transpose ta, Transpose tb, std::int64_t m,
                        std::int64_t n, std::int64_t k, float alpha, const bfloat16* a,
                        std::int64_t lda, const bfloat16* b, std::int64_t ldb, float beta, C* c,
                        std::int64_t ldc) {
  constexpr cudaDataType_t kType = std::is_same_v<C, float> ? CUDA_R_32F : CUDA_R_16BF;
  const auto gemm = [](cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                       std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* by,
                       const void* left, std::int64_t left_distance, const void* right,
                       std::int64_t right_distance, const float* keep, void* result,
                       std::int64_t distance) {
    return cublasGemmEx_64(handle, op_a, op_b, rows, columns, depth, by, left, CUDA_R_16BF,
                           left_distance, right, CUDA_R_16BF, right_distance, keep, result, kType,
                           distance, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  };
  call(gemm, exec, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
#else
static_assert(Kokkos::SpaceAccessibility<Kokkos::HostSpace, Device::memory_space>::accessible,
              "GEMM is written for the host and for CUDA");

std::string gemm_library() {
  const std::string version = onednn_version();
  return host_gemm_library() + (version.empty() ? "" : "; bfloat16: oneDNN " + version);
}

template <class T>
static void device_gemm(const Device& exec, Transpose ta, Transpose tb, std::int64_t m,
                        std::int64_t n, std::int64_t k, T alpha, const T* a, std::int64_t lda,
                        const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
  exec.fence("KnapFormer::gemm");
  host_gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

template <class C>
static void device_gemm(const Device& exec, Transpose ta, Transpose tb, std::int64_t m,
                        std::int64_t n, std::int64_t k, float alpha, const bfloat16* a,
                        std::int64_t lda, const bfloat16* b, std::int64_t ldb, float beta, C* c,
                        std::int64_t ldc) {
  exec.fence("KnapFormer::gemm");
  if (!onednn_gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) {
    panel_gemm(exec, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
}
#endif

template <class C, class T>
void gemm(const Device& exec, Transpose transpose_a, Transpose transpose_b, Accumulate<C> alpha,
          const MatrixIn<T>& a, const MatrixIn<T>& b, Accumulate<C> beta, const Matrix<C>& c) {
  const auto m = static_cast<std::int64_t>(c.extent(0));
  const auto n = static_cast<std::int64_t>(c.extent(1));
  const auto k = static_cast<std::int64_t>(a.extent(transpose_a == Transpose::kYes ? 0 : 1));
  if (transpose_a == Transpose::kYes) {
    require_extents("gemm: transposed a", a, {k, m});
  } else {
    require_extents("gemm: a", a, {m, k});
  }
  if (transpose_b == Transpose::kYes) {
    require_extents("gemm: transposed b", b, {n, k});
  } else {
    require_extents("gemm: b", b, {k, n});
  }
  static const std::string kRegion = "KnapFormer::gemm";  // made once: no allocation
  const Kokkos::Profiling::ScopedRegion region(kRegion);
  const auto distance = [](const auto& view) { return static_cast<std::int64_t>(view.stride(0)); };
  device_gemm(exec, transpose_a, transpose_b, m, n, k, alpha, a.data(), distance(a), b.data(),
              distance(b), beta, c.data(), distance(c));
}

#define KNAPFORMER_INSTANTIATE(C, T)                                                               \
  template void gemm<C, T>(const Device&, Transpose, Transpose, Accumulate<C>, const MatrixIn<T>&, \
                           const MatrixIn<T>&, Accumulate<C>, const Matrix<C>&);
KNAPFORMER_INSTANTIATE(float, float)
KNAPFORMER_INSTANTIATE(double, double)
KNAPFORMER_INSTANTIATE(bfloat16, bfloat16)
KNAPFORMER_INSTANTIATE(float, bfloat16)

}  // namespace knapformer::kernels
