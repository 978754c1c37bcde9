// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <cmath>
#include <knapformer/kernels/rope.hpp>

#include "kernels/check.hpp"
#include "kernels/row_loops.hpp"

namespace knapformer::kernels {

template <class T>
void rope_table(const Device& exec, const Positions& positions, double base,
                const Matrix<T>& table) {
  const auto rows = static_cast<std::int64_t>(positions.extent(0));
  const auto half = static_cast<std::int64_t>(table.extent(1)) / 2;
  require_extents("rope_table: table", table, {rows, 2 * half});
  // Angles in double: a float has too few digits for those of a long sequence.
  const double log_base = std::log(base);
  for_each_row(
      "KnapFormer::rope_table", exec, rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        const double position = positions(row, 0);
        T* const cosines = &table(row, 0);
        T* const sines = cosines + half;
        lane_for(member, half, [=](std::int64_t i) {
          const double exponent = -static_cast<double>(i) / static_cast<double>(half);
          const double angle = position * Kokkos::exp(log_base * exponent);
          cosines[i] = static_cast<T>(Kokkos::cos(angle));
          sines[i] = static_cast<T>(Kokkos::sin(angle));
        });
      });
}

template void rope_table<float>(const Device&, const Positions&, double, const Matrix<float>&);
template void rope_table<double>(const Device&, const Positions&, double, const Matrix<double>&);

}  // namespace knapformer::kernels
