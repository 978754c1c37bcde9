// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/squared_error.hpp>

#include "kernels/check.hpp"
#include "kernels/row_loops.hpp"

namespace knapformer::kernels {

template <class T>
double squared_error(const Device& exec, const MatrixIn<T>& y, const MatrixIn<T>& target,
                     const VectorIn<double>& scales, const Matrix<T>& dy) {
  using A = Accumulate<T>;
  const auto rows = static_cast<std::int64_t>(y.extent(0));
  const auto d = static_cast<std::int64_t>(y.extent(1));
  require_extents("squared_error: target", target, {rows, d});
  require_extents("squared_error: scales", scales, {rows});
  require_extents("squared_error: dy", dy, {rows, d});
  double error = 0;
  if (rows > 0) {
    // One row a league member: the reduction's tree depends on the shape and the threads alone.
    Kokkos::parallel_reduce(
        "KnapFormer::squared_error", TeamPolicy(exec, league_size(rows), 1, kOnHost ? 1 : 32),
        KOKKOS_LAMBDA(const TeamMember& member, double& sum) {
          const std::int64_t row = member.league_rank();
          const T* const a = &y(row, 0);
          const T* const b = &target(row, 0);
          T* const to = &dy(row, 0);
          const double scale = scales(row);
          const double own = lane_sum<double>(member, d, [=](std::int64_t c) {
            const A difference = a[c] - b[c];
            to[c] = static_cast<A>(scale) * difference;
            return static_cast<double>(difference) * static_cast<double>(difference);
          });
          Kokkos::single(Kokkos::PerThread(member), [&] { sum += scale / 2 * own; });
        },
        error);
  }
  exec.fence("KnapFormer::squared_error");
  return error;
}

template double squared_error<float>(const Device&, const MatrixIn<float>&, const MatrixIn<float>&,
                                     const VectorIn<double>&, const Matrix<float>&);
template double squared_error<double>(const Device&, const MatrixIn<double>&,
                                      const MatrixIn<double>&, const VectorIn<double>&,
                                      const Matrix<double>&);
template double squared_error<bfloat16>(const Device&, const MatrixIn<bfloat16>&,
                                        const MatrixIn<bfloat16>&, const VectorIn<double>&,
                                        const Matrix<bfloat16>&);

}  // namespace knapformer::kernels
