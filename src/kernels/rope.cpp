// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <cmath>
#include <knapformer/kernels/rope.hpp>

#include "kernels/check.hpp"
#include "kernels/row_loops.hpp"

namespace knapformer::kernels {

template <class T>
void rope_table(const Device& exec, const Positions& positions, double base, const RopeAxes& axes,
                const Matrix<T>& table) {
  const auto rows = static_cast<std::int64_t>(positions.extent(0));
  for (const std::int64_t width : axes) {
    if (width < 0 || width % 2 != 0) {
      throw Error("rope_table: an axis rotates " + std::to_string(width) +
                  " elements, must be an even number");
    }
  }
  require_extents("rope_table: table", table, {rows, axes[0] + axes[1] + axes[2]});
  const std::int64_t half = (axes[0] + axes[1] + axes[2]) / 2;
  // Pairs up to ends[a] belong to axis a.
  const Kokkos::Array<std::int64_t, 3> widths{axes[0] / 2, axes[1] / 2, axes[2] / 2};
  const Kokkos::Array<std::int64_t, 3> ends{widths[0], widths[0] + widths[1], half};
  // Angles in double: a float has too few digits for those of a long sequence.
  const double log_base = std::log(base);
  for_each_row(
      "KnapFormer::rope_table", exec, rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        T* const cosines = &table(row, 0);
        T* const sines = cosines + half;
        lane_for(member, half, [=](std::int64_t pair) {
          const int axis = pair < ends[0] ? 0 : pair < ends[1] ? 1 : 2;
          const std::int64_t i = pair - (ends[axis] - widths[axis]);
          const double exponent = -static_cast<double>(i) / static_cast<double>(widths[axis]);
          const double angle = positions(row, axis) * Kokkos::exp(log_base * exponent);
          cosines[pair] = static_cast<T>(Kokkos::cos(angle));
          sines[pair] = static_cast<T>(Kokkos::sin(angle));
        });
      });
}

#define KNAPFORMER_INSTANTIATE(T)                                                       \
  template void rope_table<T>(const Device&, const Positions&, double, const RopeAxes&, \
                              const Matrix<T>&);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)

}  // namespace knapformer::kernels
