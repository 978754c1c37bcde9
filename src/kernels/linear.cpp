// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/gemm.hpp>
#include <knapformer/kernels/linear.hpp>

#include "kernels/check.hpp"
#include "kernels/column_sums.hpp"

namespace knapformer::kernels {

static std::int64_t size_of(const auto& vector) {
  return static_cast<std::int64_t>(vector.extent(0));
}

template <class T>
static void require_linear(const MatrixIn<T>& x, const MatrixIn<T>& weight, std::int64_t biases,
                           const MatrixIn<T>& y) {
  const auto rows = static_cast<std::int64_t>(x.extent(0));
  const auto out = static_cast<std::int64_t>(weight.extent(0));
  require_extents("linear: weight", weight, {out, static_cast<std::int64_t>(x.extent(1))});
  if (biases != out)
    throw Error("linear: there are " + std::to_string(biases) + " biases for " +
                std::to_string(out) + " outputs");
  require_extents("linear: y", y, {rows, out});
}

template <class T>
void linear(const Device& exec, const MatrixIn<T>& x, const MatrixIn<T>& weight,
            const VectorIn<T>& bias, const Matrix<T>& y) {
  require_linear<T>(x, weight, size_of(bias), y);
  const auto columns = static_cast<std::int64_t>(y.extent(1));
  for_each_row(
      "KnapFormer::linear_bias", exec, static_cast<std::int64_t>(y.extent(0)),
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        T* const to = &y(row, 0);
        const T* const from = bias.data();
        lane_for(member, columns, [=](std::int64_t c) { to[c] = from[c]; });
      });
  gemm(exec, Transpose::kNo, Transpose::kYes, 1, x, weight, 1, y);
}

template <class T>
void linear_residual(const Device& exec, const MatrixIn<T>& x, const MatrixIn<T>& weight,
                     const VectorIn<T>& bias, const MatrixIn<T>& residual, const Matrix<T>& y) {
  require_linear<T>(x, weight, size_of(bias), y);
  require_linear<T>(x, weight, size_of(bias), residual);
  const auto columns = static_cast<std::int64_t>(y.extent(1));
  for_each_row(
      "KnapFormer::linear_residual", exec, static_cast<std::int64_t>(y.extent(0)),
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        T* const to = &y(row, 0);
        const T* const from = &residual(row, 0);
        const T* const add = bias.data();
        lane_for(member, columns, [=](std::int64_t c) { to[c] = from[c] + add[c]; });
      });
  gemm(exec, Transpose::kNo, Transpose::kYes, 1, x, weight, 1, y);
}

template <class T>
void linear_backward(const Device& exec, const MatrixIn<T>& x, const MatrixIn<T>& weight,
                     const MatrixIn<T>& dy, const Matrix<T>& dx,
                     const Matrix<Accumulate<T>>& dweight, const Vector<Accumulate<T>>& dbias,
                     Accumulate<T> keep) {
  require_linear<T>(x, weight, size_of(dbias), dy);
  require_linear<T>(dx, weight, size_of(dbias), dy);
  require_extents(
      "linear: dweight", dweight,
      {static_cast<std::int64_t>(weight.extent(0)), static_cast<std::int64_t>(weight.extent(1))});
  gemm(exec, Transpose::kNo, Transpose::kNo, 1, dy, weight, keep, dx);
  gemm<Accumulate<T>, T>(exec, Transpose::kYes, Transpose::kNo, 1, dy, x, 1, dweight);
  add_column_sums(
      "KnapFormer::linear_bias_gradient", exec, static_cast<std::int64_t>(dy.extent(0)), dbias,
      KOKKOS_LAMBDA(std::int64_t row, std::int64_t c) { return dy(row, c); });
}

#define KNAPFORMER_INSTANTIATE(T)                                                                  \
  template void linear<T>(const Device&, const MatrixIn<T>&, const MatrixIn<T>&,                   \
                          const VectorIn<T>&, const Matrix<T>&);                                   \
  template void linear_residual<T>(const Device&, const MatrixIn<T>&, const MatrixIn<T>&,          \
                                   const VectorIn<T>&, const MatrixIn<T>&, const Matrix<T>&);      \
  template void linear_backward<T>(                                                                \
      const Device&, const MatrixIn<T>&, const MatrixIn<T>&, const MatrixIn<T>&, const Matrix<T>&, \
      const Matrix<Accumulate<T>>&, const Vector<Accumulate<T>>&, Accumulate<T>);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)
KNAPFORMER_INSTANTIATE(bfloat16)

}  // namespace knapformer::kernels
