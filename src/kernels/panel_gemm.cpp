// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>

#include "kernels/blas.hpp"
#include "kernels/row_math.hpp"

namespace knapformer::kernels {
namespace {

using HostPolicy =
    Kokkos::TeamPolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::int64_t>>;

// Sides of a tile of c, and how much of k is converted at a time: the sums and both panels make a
// megabyte.
constexpr std::int64_t kSide = 256, kDepth = 384;

float* scratch(const HostPolicy::member_type& member, std::int64_t size) {
  return static_cast<float*>(
      member.team_scratch(1).get_shmem_aligned(sizeof(float) * static_cast<std::size_t>(size), 64));
}

/// A block of rows of `from`, converted and packed.
void load(std::int64_t rows, std::int64_t columns, const bfloat16* from, std::int64_t distance,
          float* to) {
  for (std::int64_t row = 0; row < rows; ++row) {
    host::widen(from + row * distance, to + row * columns, columns);
  }
}

void store(const float* sums, float beta, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = beta == 0 ? sums[i] : sums[i] + beta * to[i];
}
void store(float* sums, float beta, bfloat16* to, std::int64_t n) {
  if (beta != 0) {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += beta * to[i];
  }
  host::narrow(sums, to, n);
}

}  // namespace

template <class C>
void panel_gemm(const Kokkos::DefaultHostExecutionSpace& exec, Transpose transpose_a,
                Transpose transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                const bfloat16* a, std::int64_t lda, const bfloat16* b, std::int64_t ldb,
                float beta, C* c, std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  const bool turn_a = transpose_a == Transpose::kYes, turn_b = transpose_b == Transpose::kYes;
  const std::int64_t across = (n + kSide - 1) / kSide, down = (m + kSide - 1) / kSide;
  const auto bytes = static_cast<int>(sizeof(float) * kSide * (kSide + 2 * kDepth) + 3 * 64);
  auto policy = HostPolicy(exec, static_cast<int>(across * down), 1, 1)
                    .set_scratch_size(1, Kokkos::PerTeam(bytes));
  Kokkos::parallel_for(
      "KnapFormer::panel_gemm", policy, [=](const HostPolicy::member_type& member) {
        float* const sums = scratch(member, kSide * kSide);
        float* const panel_a = scratch(member, kSide * kDepth);
        float* const panel_b = scratch(member, kSide * kDepth);
        const std::int64_t row = member.league_rank() / across * kSide;
        const std::int64_t column = member.league_rank() % across * kSide;
        const std::int64_t rows = std::min(kSide, m - row), columns = std::min(kSide, n - column);
        std::int64_t at = 0;
        do {
          const std::int64_t depth = std::min(kDepth, k - at);
          if (turn_a) {
            load(depth, rows, a + at * lda + row, lda, panel_a);
          } else {
            load(rows, depth, a + row * lda + at, lda, panel_a);
          }
          if (turn_b) {
            load(columns, depth, b + column * ldb + at, ldb, panel_b);
          } else {
            load(depth, columns, b + at * ldb + column, ldb, panel_b);
          }
          host_gemm(transpose_a, transpose_b, rows, columns, depth, alpha, panel_a,
                    turn_a ? rows : depth, panel_b, turn_b ? depth : columns, at == 0 ? 0.0F : 1.0F,
                    sums, columns);
          at += kDepth;
        } while (at < k);
        for (std::int64_t i = 0; i < rows; ++i) {
          store(sums + i * columns, beta, c + (row + i) * ldc + column, columns);
        }
      });
  exec.fence("KnapFormer::panel_gemm");
}

#define KNAPFORMER_INSTANTIATE(C)                                                            \
  template void panel_gemm(const Kokkos::DefaultHostExecutionSpace&, Transpose, Transpose,   \
                           std::int64_t, std::int64_t, std::int64_t, float, const bfloat16*, \
                           std::int64_t, const bfloat16*, std::int64_t, float, C*, std::int64_t);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(bfloat16)

}  // namespace knapformer::kernels
