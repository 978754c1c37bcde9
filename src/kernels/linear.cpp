// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/gemm.hpp>
#include <knapformer/kernels/linear.hpp>

#include "kernels/check.hpp"
#include "kernels/column_sums.hpp"

namespace knapformer::kernels {

template <class T>
static void require_linear(const MatrixIn<T>& x, const MatrixIn<T>& weight, const VectorIn<T>& bias,
                           const MatrixIn<T>& y) {
  const auto rows = static_cast<std::int64_t>(x.extent(0));
  const auto out = static_cast<std::int64_t>(weight.extent(0));
  require_extents("linear: weight", weight, {out, static_cast<std::int64_t>(x.extent(1))});
  require_extents("linear: bias", bias, {out});
  require_extents("linear: y", y, {rows, out});
}

template <class T>
void linear(const Device& exec, const MatrixIn<T>& x, const MatrixIn<T>& weight,
            const VectorIn<T>& bias, const Matrix<T>& y) {
  require_linear<T>(x, weight, bias, y);
  const auto columns = static_cast<std::int64_t>(y.extent(1));
  for_each_row(
      "KnapFormer::linear_bias", exec, static_cast<std::int64_t>(y.extent(0)),
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        T* const to = &y(row, 0);
        const T* const from = bias.data();
        lane_for(member, columns, [=](std::int64_t c) { to[c] = from[c]; });
      });
  gemm(exec, Transpose::kNo, Transpose::kYes, T(1), x, weight, T(1), y);
}

template <class T>
void linear_residual(const Device& exec, const MatrixIn<T>& x, const MatrixIn<T>& weight,
                     const VectorIn<T>& bias, const MatrixIn<T>& residual, const Matrix<T>& y) {
  require_linear<T>(x, weight, bias, y);
  require_linear<T>(x, weight, bias, residual);
  const auto columns = static_cast<std::int64_t>(y.extent(1));
  for_each_row(
      "KnapFormer::linear_residual", exec, static_cast<std::int64_t>(y.extent(0)),
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        T* const to = &y(row, 0);
        const T* const from = &residual(row, 0);
        const T* const add = bias.data();
        lane_for(member, columns, [=](std::int64_t c) { to[c] = from[c] + add[c]; });
      });
  gemm(exec, Transpose::kNo, Transpose::kYes, T(1), x, weight, T(1), y);
}

template <class T>
void linear_backward(const Device& exec, const MatrixIn<T>& x, const MatrixIn<T>& weight,
                     const MatrixIn<T>& dy, const Matrix<T>& dx, const Matrix<T>& dweight,
                     const Vector<T>& dbias, std::type_identity_t<T> keep) {
  require_linear<T>(x, weight, dbias, dy);
  require_linear<T>(dx, dweight, dbias, dy);
  gemm(exec, Transpose::kNo, Transpose::kNo, T(1), dy, weight, keep, dx);
  gemm(exec, Transpose::kYes, Transpose::kNo, T(1), dy, x, T(1), dweight);
  add_column_sums(
      "KnapFormer::linear_bias_gradient", exec, static_cast<std::int64_t>(dy.extent(0)), dbias,
      KOKKOS_LAMBDA(std::int64_t row, std::int64_t c) { return dy(row, c); });
}

#define KNAPFORMER_INSTANTIATE(T)                                                             \
  template void linear<T>(const Device&, const MatrixIn<T>&, const MatrixIn<T>&,              \
                          const VectorIn<T>&, const Matrix<T>&);                              \
  template void linear_residual<T>(const Device&, const MatrixIn<T>&, const MatrixIn<T>&,     \
                                   const VectorIn<T>&, const MatrixIn<T>&, const Matrix<T>&); \
  template void linear_backward<T>(const Device&, const MatrixIn<T>&, const MatrixIn<T>&,     \
                                   const MatrixIn<T>&, const Matrix<T>&, const Matrix<T>&,    \
                                   const Vector<T>&, T);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)

}  // namespace knapformer::kernels
