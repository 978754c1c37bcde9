// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/modulation.hpp>

#include "kernels/check.hpp"
#include "kernels/column_sums.hpp"

namespace knapformer::kernels {

/// The chunk whose rows `row` is among. Chunks without rows are passed over.
KOKKOS_INLINE_FUNCTION std::int64_t chunk_of(const ChunkOffsets& offsets, std::int64_t row) {
  std::int64_t low = 0, high = static_cast<std::int64_t>(offsets.extent(0)) - 1;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (offsets(middle) <= row ? low : high) = middle;
  }
  return low;
}

/// Throws Error unless `view` has a row for each chunk.
template <class T>
static void require_chunks(const char* name, const ChunkOffsets& offsets, const MatrixIn<T>& view,
                           std::int64_t d) {
  if (offsets.extent(0) == 0) throw Error(std::string(name) + ": there are no chunk offsets");
  require_extents(name, view, {static_cast<std::int64_t>(offsets.extent(0)) - 1, d});
}

template <class T>
void modulated_norm(const Device& exec, const ChunkOffsets& offsets, const MatrixIn<T>& x,
                    const MatrixIn<T>& shift, const MatrixIn<T>& scale, double eps,
                    const Matrix<T>& y, const Matrix<Accumulate<T>>& moments) {
  using A = Accumulate<T>;
  const auto rows = static_cast<std::int64_t>(x.extent(0));
  const auto d = static_cast<std::int64_t>(x.extent(1));
  require_chunks<T>("modulated_norm: shift", offsets, shift, d);
  require_chunks<T>("modulated_norm: scale", offsets, scale, d);
  require_extents("modulated_norm: y", y, {rows, d});
  require_extents("modulated_norm: moments", moments, {rows, 2});
  for_each_row(
      "KnapFormer::modulated_norm", exec, rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        const std::int64_t chunk = chunk_of(offsets, row);
        const T* const from = &x(row, 0);
        const T* const add = &shift(chunk, 0);
        const T* const multiply = &scale(chunk, 0);
        T* const to = &y(row, 0);
        const A mean = lane_sum<A>(member, d, [=](std::int64_t c) { return from[c]; }) / A(d);
        const A squares = lane_sum<A>(
            member, d, [=](std::int64_t c) { return (from[c] - mean) * (from[c] - mean); });
        const A factor = A(1) / Kokkos::sqrt(squares / A(d) + A(eps));
        moments(row, 0) = mean;
        moments(row, 1) = factor;
        lane_for(member, d, [=](std::int64_t c) {
          to[c] = (A(1) + multiply[c]) * ((from[c] - mean) * factor) + add[c];
        });
      });
}

template <class T>
void modulated_norm_backward(const Device& exec, const ChunkOffsets& offsets, const MatrixIn<T>& x,
                             const MatrixIn<T>& scale, const MatrixIn<Accumulate<T>>& moments,
                             const MatrixIn<T>& dy, const Matrix<T>& dx, const Matrix<T>& dshift,
                             const Matrix<T>& dscale) {
  using A = Accumulate<T>;
  const auto rows = static_cast<std::int64_t>(x.extent(0));
  const auto d = static_cast<std::int64_t>(x.extent(1));
  require_chunks<T>("modulated_norm_backward: scale", offsets, scale, d);
  require_chunks<T>("modulated_norm_backward: dshift", offsets, dshift, d);
  require_chunks<T>("modulated_norm_backward: dscale", offsets, dscale, d);
  require_extents("modulated_norm_backward: moments", moments, {rows, 2});
  require_extents("modulated_norm_backward: dy", dy, {rows, d});
  require_extents("modulated_norm_backward: dx", dx, {rows, d});
  // With xn = (x - mean) r and g = (1 + scale) dy: dx = r (g - mean(g) - xn mean(g xn)).
  for_each_row(
      "KnapFormer::modulated_norm_backward", exec, rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        const T* const in = &x(row, 0);
        const T* const multiply = &scale(chunk_of(offsets, row), 0);
        const T* const g = &dy(row, 0);
        T* const to = &dx(row, 0);
        const A mean = moments(row, 0), factor = moments(row, 1);
        const A sum =
            lane_sum<A>(member, d, [=](std::int64_t c) { return (A(1) + multiply[c]) * g[c]; });
        const A dot = lane_sum<A>(member, d, [=](std::int64_t c) {
          return (A(1) + multiply[c]) * g[c] * ((in[c] - mean) * factor);
        });
        lane_for(member, d, [=](std::int64_t c) {
          const A normed = (in[c] - mean) * factor;
          to[c] = to[c] + factor * ((A(1) + multiply[c]) * g[c] - (sum + normed * dot) / A(d));
        });
      });
  sum_chunk_columns<A, 2>(
      "KnapFormer::modulation_gradient", exec, offsets, d,
      KOKKOS_LAMBDA(std::int64_t row, std::int64_t, std::int64_t c) {
        const A g = dy(row, c);
        return Kokkos::Array<A, 2>{g, g * ((x(row, c) - moments(row, 0)) * moments(row, 1))};
      },
      KOKKOS_LAMBDA(std::int64_t chunk, std::int64_t c, const Kokkos::Array<A, 2>& sums) {
        dshift(chunk, c) = sums[0];
        dscale(chunk, c) = sums[1];
      });
}

template <class T>
void gated_residual(const Device& exec, const ChunkOffsets& offsets, const MatrixIn<T>& x,
                    const MatrixIn<T>& gate, const MatrixIn<T>& residual, const Matrix<T>& y) {
  const auto rows = static_cast<std::int64_t>(x.extent(0));
  const auto d = static_cast<std::int64_t>(x.extent(1));
  require_chunks<T>("gated_residual: gate", offsets, gate, d);
  require_extents("gated_residual: residual", residual, {rows, d});
  require_extents("gated_residual: y", y, {rows, d});
  for_each_row(
      "KnapFormer::gated_residual", exec, rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        const T* const from = &x(row, 0);
        const T* const multiply = &gate(chunk_of(offsets, row), 0);
        const T* const add = &residual(row, 0);
        T* const to = &y(row, 0);
        lane_for(member, d, [=](std::int64_t c) { to[c] = add[c] + multiply[c] * from[c]; });
      });
}

template <class T>
void gated_residual_backward(const Device& exec, const ChunkOffsets& offsets, const MatrixIn<T>& x,
                             const MatrixIn<T>& gate, const MatrixIn<T>& dy, const Matrix<T>& dx,
                             const Matrix<T>& dgate) {
  using A = Accumulate<T>;
  const auto rows = static_cast<std::int64_t>(x.extent(0));
  const auto d = static_cast<std::int64_t>(x.extent(1));
  require_chunks<T>("gated_residual_backward: gate", offsets, gate, d);
  require_chunks<T>("gated_residual_backward: dgate", offsets, dgate, d);
  require_extents("gated_residual_backward: dy", dy, {rows, d});
  require_extents("gated_residual_backward: dx", dx, {rows, d});
  sum_chunk_columns<A, 1>(
      "KnapFormer::gated_residual_backward", exec, offsets, d,
      KOKKOS_LAMBDA(std::int64_t row, std::int64_t chunk, std::int64_t c) {
        const A g = dy(row, c);
        dx(row, c) = gate(chunk, c) * g;
        return Kokkos::Array<A, 1>{g * x(row, c)};
      },
      KOKKOS_LAMBDA(std::int64_t chunk, std::int64_t c, const Kokkos::Array<A, 1>& sums) {
        dgate(chunk, c) = sums[0];
      });
}

#define KNAPFORMER_INSTANTIATE(T)                                                                  \
  template void modulated_norm<T>(const Device&, const ChunkOffsets&, const MatrixIn<T>&,          \
                                  const MatrixIn<T>&, const MatrixIn<T>&, double,                  \
                                  const Matrix<T>&, const Matrix<Accumulate<T>>&);                 \
  template void modulated_norm_backward<T>(const Device&, const ChunkOffsets&, const MatrixIn<T>&, \
                                           const MatrixIn<T>&, const MatrixIn<Accumulate<T>>&,     \
                                           const MatrixIn<T>&, const Matrix<T>&, const Matrix<T>&, \
                                           const Matrix<T>&);                                      \
  template void gated_residual<T>(const Device&, const ChunkOffsets&, const MatrixIn<T>&,          \
                                  const MatrixIn<T>&, const MatrixIn<T>&, const Matrix<T>&);       \
  template void gated_residual_backward<T>(const Device&, const ChunkOffsets&, const MatrixIn<T>&, \
                                           const MatrixIn<T>&, const MatrixIn<T>&,                 \
                                           const Matrix<T>&, const Matrix<T>&);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)
KNAPFORMER_INSTANTIATE(bfloat16)

}  // namespace knapformer::kernels
