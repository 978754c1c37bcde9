// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

// The steps of attention on one tile, by one team: the BLAS and vector code on the host, the team's
// threads on a device. Every step ends with all its results visible to the team.

#include "kernels/blas.hpp"
#include "kernels/row_loops.hpp"
#include "kernels/row_math.hpp"

namespace knapformer::kernels {

// Tokens along the sides of a tile. On the host large enough for the BLAS to reach its speed, while
// the tiles stay in the second-level cache; on a device, two tiles of doubles fit into shared
// memory.
inline constexpr int kTile = kOnHost ? 192 : 32;
inline constexpr int kAttentionThreads = kOnHost ? 1 : 128;

/// Whether tiles are computed where they are, without a conversion.
template <class T>
inline constexpr bool kInPlace = std::is_same_v<T, Accumulate<T>>;

/// Rows of a tile, as they are computed with.
template <class A>
struct TileRows {
  A* data;
  std::int64_t distance;
};

/// The rows of a tile of width d themselves, or converted, packed, in `room`.
template <class T>
KOKKOS_INLINE_FUNCTION TileRows<const Accumulate<T>> load_tile(const TeamMember& member, int rows,
                                                               std::int64_t d, const T* from,
                                                               std::int64_t distance,
                                                               Accumulate<T>* room) {
  if constexpr (kInPlace<T>) {
    return {from, distance};
  } else {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member, rows), [&](int row) {
      const T* const source = from + row * distance;
      Accumulate<T>* const target = room + row * d;
      KOKKOS_IF_ON_HOST((host::widen(source, target, d);))
      KOKKOS_IF_ON_DEVICE((for (std::int64_t c = 0; c < d; ++c) target[c] = source[c];))
    });
    member.team_barrier();
    return {room, d};
  }
}

/// Where a tile of width d is summed up: in its place, or in `room`.
template <class T>
KOKKOS_INLINE_FUNCTION TileRows<Accumulate<T>> sum_tile(std::int64_t d, T* to,
                                                        std::int64_t distance,
                                                        Accumulate<T>* room) {
  if constexpr (kInPlace<T>) {
    return {to, distance};
  } else {
    return {room, d};
  }
}

/// Brings what sum_tile() has summed to its place.
template <class T>
KOKKOS_INLINE_FUNCTION void store_tile(const TeamMember& member, int rows, std::int64_t d,
                                       const TileRows<Accumulate<T>>& sums, T* to,
                                       std::int64_t distance) {
  if constexpr (!kInPlace<T>) {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member, rows), [&](int row) {
      const Accumulate<T>* const source = sums.data + row * sums.distance;
      T* const target = to + row * distance;
      KOKKOS_IF_ON_HOST((host::narrow(source, target, d);))
      KOKKOS_IF_ON_DEVICE((for (std::int64_t c = 0; c < d; ++c) target[c] = source[c];))
    });
    member.team_barrier();
  }
}

/// c [m x n] = alpha op(a) op(b) + beta c; leading dimensions as in gemm. c is not read with beta =
/// 0.
template <class T>
KOKKOS_INLINE_FUNCTION void tile_multiply([[maybe_unused]] const TeamMember& member,
                                          Transpose transpose_a, Transpose transpose_b,
                                          std::int64_t m, std::int64_t n, std::int64_t k, T alpha,
                                          const T* a, std::int64_t lda, const T* b,
                                          std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
  KOKKOS_IF_ON_HOST(
      (host_gemm(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);))
  KOKKOS_IF_ON_DEVICE((const std::int64_t a_row = transpose_a == Transpose::kYes ? 1 : lda;
                       const std::int64_t a_column = transpose_a == Transpose::kYes ? lda : 1;
                       const std::int64_t b_row = transpose_b == Transpose::kYes ? 1 : ldb;
                       const std::int64_t b_column = transpose_b == Transpose::kYes ? ldb : 1;
                       Kokkos::parallel_for(Kokkos::TeamThreadRange(member, m * n),
                                            [&](std::int64_t index) {
                                              const std::int64_t i = index / n, j = index % n;
                                              T sum = 0;
                                              for (std::int64_t l = 0; l < k; ++l) {
                                                sum += a[i * a_row + l * a_column] *
                                                       b[l * b_row + j * b_column];
                                              }
                                              T& to = c[i * ldc + j];
                                              to = alpha * sum + (beta == T(0) ? T(0) : beta * to);
                                            });
                       member.team_barrier();))
}

/// See softmax_tile_row.
template <class T>
KOKKOS_INLINE_FUNCTION void softmax_tile([[maybe_unused]] const TeamMember& member,
                                         const ScoreTile& tile, T* scores, SoftmaxState<T>* states,
                                         T* out, std::int64_t out_distance, std::int64_t width) {
  KOKKOS_IF_ON_HOST((host::softmax_tile(tile, scores, states, out, out_distance, width);))
  KOKKOS_IF_ON_DEVICE((Kokkos::parallel_for(Kokkos::TeamThreadRange(member, tile.rows),
                                            [&](int row) {
                                              softmax_tile_row<1>(tile, row, scores, states, out,
                                                                  out_distance, width);
                                            });
                       member.team_barrier();))
}

/// See softmax_gradient_tile_row.
template <class T>
KOKKOS_INLINE_FUNCTION void softmax_gradient_tile([[maybe_unused]] const TeamMember& member,
                                                  const ScoreTile& tile, T* scores, T* products,
                                                  const T* log_sum_exp, const T* delta,
                                                  std::int64_t step) {
  KOKKOS_IF_ON_HOST(
      (host::softmax_gradient_tile(tile, scores, products, log_sum_exp, delta, step);))
  KOKKOS_IF_ON_DEVICE((Kokkos::parallel_for(Kokkos::TeamThreadRange(member, tile.rows),
                                            [&](int row) {
                                              softmax_gradient_tile_row(tile, row, scores, products,
                                                                        log_sum_exp, delta, step);
                                            });
                       member.team_barrier();))
}

}  // namespace knapformer::kernels
