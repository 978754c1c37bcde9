// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/gelu.hpp>

#include "kernels/check.hpp"
#include "kernels/row_loops.hpp"
#include "kernels/row_math.hpp"

namespace knapformer::kernels {

template <class T>
void bias_gelu(const Device& exec, const MatrixIn<T>& x, const VectorIn<T>& bias,
               const Matrix<T>& y) {
  const auto rows = static_cast<std::int64_t>(x.extent(0));
  const auto d = static_cast<std::int64_t>(x.extent(1));
  require_extents("bias_gelu: bias", bias, {d});
  require_extents("bias_gelu: y", y, {rows, d});
  for_each_row(
      "KnapFormer::bias_gelu", exec, rows,
      KOKKOS_LAMBDA([[maybe_unused]] const TeamMember& member, std::int64_t row) {
        const T* const from = &x(row, 0);
        const T* const add = bias.data();
        T* const to = &y(row, 0);
        KOKKOS_IF_ON_HOST((host::bias_gelu(from, add, to, d);))
        KOKKOS_IF_ON_DEVICE((lane_for(member, d, [=](std::int64_t c) {
                               bias_gelu_row(from + c, add + c, to + c, 1);
                             });))
      });
}

template <class T>
void bias_gelu_backward(const Device& exec, const MatrixIn<T>& x, const VectorIn<T>& bias,
                        const MatrixIn<T>& dy, const Matrix<T>& dx) {
  const auto rows = static_cast<std::int64_t>(x.extent(0));
  const auto d = static_cast<std::int64_t>(x.extent(1));
  require_extents("bias_gelu_backward: bias", bias, {d});
  require_extents("bias_gelu_backward: dy", dy, {rows, d});
  require_extents("bias_gelu_backward: dx", dx, {rows, d});
  for_each_row(
      "KnapFormer::bias_gelu_backward", exec, rows,
      KOKKOS_LAMBDA([[maybe_unused]] const TeamMember& member, std::int64_t row) {
        const T* const from = &x(row, 0);
        const T* const add = bias.data();
        const T* const g = &dy(row, 0);
        T* const to = &dx(row, 0);
        KOKKOS_IF_ON_HOST((host::bias_gelu_gradient(from, add, g, to, d);))
        KOKKOS_IF_ON_DEVICE((lane_for(member, d, [=](std::int64_t c) {
                               bias_gelu_gradient_row(from + c, add + c, g + c, to + c, 1);
                             });))
      });
}

#define KNAPFORMER_INSTANTIATE(T)                                                            \
  template void bias_gelu<T>(const Device&, const MatrixIn<T>&, const VectorIn<T>&,          \
                             const Matrix<T>&);                                              \
  template void bias_gelu_backward<T>(const Device&, const MatrixIn<T>&, const VectorIn<T>&, \
                                      const MatrixIn<T>&, const Matrix<T>&);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)
KNAPFORMER_INSTANTIATE(bfloat16)

}  // namespace knapformer::kernels
