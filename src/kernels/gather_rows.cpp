// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/gather_rows.hpp>

#include "kernels/check.hpp"
#include "kernels/row_loops.hpp"

namespace knapformer::kernels {

template <class T>
void gather_rows(const Device& exec, const RowIndex& rows, const MatrixIn<T>& from,
                 const Matrix<T>& to) {
  const auto count = static_cast<std::int64_t>(rows.extent(0));
  const auto d = static_cast<std::int64_t>(from.extent(1));
  require_extents("gather_rows: to", to, {count, d});
  for_each_row(
      "KnapFormer::gather_rows", exec, count,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        const T* const source = &from(rows(row), 0);
        T* const target = &to(row, 0);
        lane_for(member, d, [=](std::int64_t c) { target[c] = source[c]; });
      });
}

template <class T>
void scatter_rows(const Device& exec, const RowIndex& rows, const MatrixIn<T>& from,
                  const Matrix<T>& to) {
  const auto count = static_cast<std::int64_t>(rows.extent(0));
  const auto d = static_cast<std::int64_t>(to.extent(1));
  require_extents("scatter_rows: from", from, {count, d});
  for_each_row(
      "KnapFormer::scatter_rows", exec, count,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        const T* const source = &from(row, 0);
        T* const target = &to(rows(row), 0);
        lane_for(member, d, [=](std::int64_t c) { target[c] = source[c]; });
      });
}

#define KNAPFORMER_INSTANTIATE(T)                                                   \
  template void gather_rows<T>(const Device&, const RowIndex&, const MatrixIn<T>&,  \
                               const Matrix<T>&);                                   \
  template void scatter_rows<T>(const Device&, const RowIndex&, const MatrixIn<T>&, \
                                const Matrix<T>&);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)
KNAPFORMER_INSTANTIATE(bfloat16)

}  // namespace knapformer::kernels
