// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <cmath>
#include <knapformer/kernels/time_embedding.hpp>

#include "kernels/check.hpp"
#include "kernels/row_loops.hpp"

namespace knapformer::kernels {

template <class T>
void time_embedding(const Device& exec, const VectorIn<Accumulate<T>>& times, double factor,
                    double period, const Matrix<T>& out) {
  const auto rows = static_cast<std::int64_t>(times.extent(0));
  const auto half = static_cast<std::int64_t>(out.extent(1)) / 2;
  require_extents("time_embedding: out", out, {rows, 2 * half});
  const double log_period = std::log(period);
  for_each_row(
      "KnapFormer::time_embedding", exec, rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        const double time = factor * static_cast<double>(times(row));
        T* const cosines = &out(row, 0);
        T* const sines = cosines + half;
        lane_for(member, half, [=](std::int64_t i) {
          const double exponent = -static_cast<double>(i) / static_cast<double>(half);
          const double angle = time * Kokkos::exp(log_period * exponent);
          cosines[i] = static_cast<T>(Kokkos::cos(angle));
          sines[i] = static_cast<T>(Kokkos::sin(angle));
        });
      });
}

template void time_embedding<float>(const Device&, const VectorIn<float>&, double, double,
                                    const Matrix<float>&);
template void time_embedding<double>(const Device&, const VectorIn<double>&, double, double,
                                     const Matrix<double>&);
template void time_embedding<bfloat16>(const Device&, const VectorIn<float>&, double, double,
                                       const Matrix<bfloat16>&);

}  // namespace knapformer::kernels
