// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/rms_norm.hpp>

#include "kernels/check.hpp"
#include "kernels/column_sums.hpp"

namespace knapformer::kernels {

template <class T>
void rms_norm(const Device& exec, const MatrixIn<T>& x, const VectorIn<T>& weight, double eps,
              const Matrix<T>& y, const Vector<Accumulate<T>>& inverse_rms) {
  using A = Accumulate<T>;
  const auto rows = static_cast<std::int64_t>(x.extent(0));
  const auto d = static_cast<std::int64_t>(x.extent(1));
  require_extents("rms_norm: weight", weight, {d});
  require_extents("rms_norm: y", y, {rows, d});
  require_extents("rms_norm: inverse_rms", inverse_rms, {rows});
  for_each_row(
      "KnapFormer::rms_norm", exec, rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        const T* const from = &x(row, 0);
        const T* const w = weight.data();
        T* const to = &y(row, 0);
        const A squares = lane_sum<A>(member, d, [=](std::int64_t c) { return from[c] * from[c]; });
        const A factor = A(1) / Kokkos::sqrt(squares / A(d) + A(eps));
        inverse_rms(row) = factor;
        lane_for(member, d, [=](std::int64_t c) { to[c] = w[c] * (from[c] * factor); });
      });
}

template <class T>
void rms_norm_backward(const Device& exec, const MatrixIn<T>& x, const VectorIn<T>& weight,
                       const VectorIn<Accumulate<T>>& inverse_rms, const MatrixIn<T>& dy,
                       const Matrix<T>& dx, const Vector<Accumulate<T>>& dweight) {
  using A = Accumulate<T>;
  const auto rows = static_cast<std::int64_t>(x.extent(0));
  const auto d = static_cast<std::int64_t>(x.extent(1));
  require_extents("rms_norm_backward: weight", weight, {d});
  require_extents("rms_norm_backward: inverse_rms", inverse_rms, {rows});
  require_extents("rms_norm_backward: dy", dy, {rows, d});
  require_extents("rms_norm_backward: dx", dx, {rows, d});
  require_extents("rms_norm_backward: dweight", dweight, {d});
  // With xn = x r: dx = r (w dy - xn mean(w dy xn)).
  for_each_row(
      "KnapFormer::rms_norm_backward", exec, rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        const T* const in = &x(row, 0);
        const T* const g = &dy(row, 0);
        const T* const w = weight.data();
        T* const to = &dx(row, 0);
        const A factor = inverse_rms(row);
        const A dot = lane_sum<A>(member, d, [=](std::int64_t c) { return w[c] * g[c] * in[c]; });
        const A mean = dot * factor * factor / A(d);
        lane_for(member, d,
                 [=](std::int64_t c) { to[c] = to[c] + factor * (w[c] * g[c] - in[c] * mean); });
      });
  add_column_sums(
      "KnapFormer::rms_norm_weight_gradient", exec, rows, dweight,
      KOKKOS_LAMBDA(std::int64_t row, std::int64_t c) {
        return dy(row, c) * x(row, c) * inverse_rms(row);
      });
}

#define KNAPFORMER_INSTANTIATE(T)                                                           \
  template void rms_norm<T>(const Device&, const MatrixIn<T>&, const VectorIn<T>&, double,  \
                            const Matrix<T>&, const Vector<Accumulate<T>>&);                \
  template void rms_norm_backward<T>(const Device&, const MatrixIn<T>&, const VectorIn<T>&, \
                                     const VectorIn<Accumulate<T>>&, const MatrixIn<T>&,    \
                                     const Matrix<T>&, const Vector<Accumulate<T>>&);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)
KNAPFORMER_INSTANTIATE(bfloat16)

}  // namespace knapformer::kernels
