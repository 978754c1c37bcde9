// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/swiglu.hpp>

#include "kernels/check.hpp"
#include "kernels/row_loops.hpp"
#include "kernels/row_math.hpp"

namespace knapformer::kernels {

template <class T>
void swiglu(const Device& exec, const MatrixIn<T>& gate_up, const Matrix<T>& out) {
  const auto rows = static_cast<std::int64_t>(out.extent(0));
  const auto hidden = static_cast<std::int64_t>(out.extent(1));
  require_extents("swiglu: gate_up", gate_up, {rows, 2 * hidden});
  for_each_row(
      "KnapFormer::swiglu", exec, rows,
      KOKKOS_LAMBDA([[maybe_unused]] const TeamMember& member, std::int64_t row) {
        const T* const gate = &gate_up(row, 0);
        const T* const up = gate + hidden;
        T* const to = &out(row, 0);
        KOKKOS_IF_ON_HOST((host::swiglu(gate, up, to, hidden);))
        KOKKOS_IF_ON_DEVICE((lane_for(member, hidden, [=](std::int64_t i) {
                               swiglu_row(gate + i, up + i, to + i, 1);
                             });))
      });
}

template <class T>
void swiglu_backward(const Device& exec, const MatrixIn<T>& gate_up, const MatrixIn<T>& dout,
                     const Matrix<T>& dgate_up) {
  const auto rows = static_cast<std::int64_t>(dout.extent(0));
  const auto hidden = static_cast<std::int64_t>(dout.extent(1));
  require_extents("swiglu_backward: gate_up", gate_up, {rows, 2 * hidden});
  require_extents("swiglu_backward: dgate_up", dgate_up, {rows, 2 * hidden});
  for_each_row(
      "KnapFormer::swiglu_backward", exec, rows,
      KOKKOS_LAMBDA([[maybe_unused]] const TeamMember& member, std::int64_t row) {
        const T* const gate = &gate_up(row, 0);
        const T* const up = gate + hidden;
        const T* const g = &dout(row, 0);
        T* const dgate = &dgate_up(row, 0);
        T* const dup = dgate + hidden;
        KOKKOS_IF_ON_HOST((host::swiglu_gradient(gate, up, g, dgate, dup, hidden);))
        KOKKOS_IF_ON_DEVICE((lane_for(member, hidden, [=](std::int64_t i) {
                               swiglu_gradient_row(gate + i, up + i, g + i, dgate + i, dup + i, 1);
                             });))
      });
}

#define KNAPFORMER_INSTANTIATE(T)                                                         \
  template void swiglu<T>(const Device&, const MatrixIn<T>&, const Matrix<T>&);           \
  template void swiglu_backward<T>(const Device&, const MatrixIn<T>&, const MatrixIn<T>&, \
                                   const Matrix<T>&);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)
KNAPFORMER_INSTANTIATE(bfloat16)

}  // namespace knapformer::kernels
