// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/silu.hpp>

#include "kernels/check.hpp"
#include "kernels/row_loops.hpp"
#include "kernels/row_math.hpp"

namespace knapformer::kernels {

template <class T>
void silu(const Device& exec, const MatrixIn<T>& x, const Matrix<T>& y) {
  using A = Accumulate<T>;
  const auto rows = static_cast<std::int64_t>(x.extent(0));
  const auto d = static_cast<std::int64_t>(x.extent(1));
  require_extents("silu: y", y, {rows, d});
  for_each_row(
      "KnapFormer::silu", exec, rows, KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        const T* const from = &x(row, 0);
        T* const to = &y(row, 0);
        lane_for(member, d,
                 [=](std::int64_t c) { to[c] = from[c] / (A(1) + exponential<A>(-from[c])); });
      });
}

template <class T>
void silu_backward(const Device& exec, const MatrixIn<T>& x, const MatrixIn<T>& dy,
                   const Matrix<T>& dx) {
  using A = Accumulate<T>;
  const auto rows = static_cast<std::int64_t>(x.extent(0));
  const auto d = static_cast<std::int64_t>(x.extent(1));
  require_extents("silu_backward: dy", dy, {rows, d});
  require_extents("silu_backward: dx", dx, {rows, d});
  for_each_row(
      "KnapFormer::silu_backward", exec, rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        const T* const from = &x(row, 0);
        const T* const g = &dy(row, 0);
        T* const to = &dx(row, 0);
        lane_for(member, d, [=](std::int64_t c) {
          const A sigmoid = A(1) / (A(1) + exponential<A>(-from[c]));
          to[c] = g[c] * sigmoid * (A(1) + from[c] * (A(1) - sigmoid));
        });
      });
}

#define KNAPFORMER_INSTANTIATE(T)                                                       \
  template void silu<T>(const Device&, const MatrixIn<T>&, const Matrix<T>&);           \
  template void silu_backward<T>(const Device&, const MatrixIn<T>&, const MatrixIn<T>&, \
                                 const Matrix<T>&);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)
KNAPFORMER_INSTANTIATE(bfloat16)

}  // namespace knapformer::kernels
