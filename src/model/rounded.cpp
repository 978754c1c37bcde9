// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "model/rounded.hpp"

#include <cstdint>

namespace knapformer::model {

template <class T>
void round_parameters(const Device& exec, const Vector<Accumulate<T>>& parameters,
                      const Vector<T>& rounded) {
  if (std::is_same_v<T, Accumulate<T>>) return;
  Kokkos::parallel_for(
      "KnapFormer::round_parameters",
      Kokkos::RangePolicy<Device, Kokkos::IndexType<std::int64_t>>(
          exec, 0, static_cast<std::int64_t>(parameters.extent(0))),
      KOKKOS_LAMBDA(const std::int64_t i) { rounded(i) = static_cast<T>(parameters(i)); });
}

template void round_parameters<float>(const Device&, const Vector<float>&, const Vector<float>&);
template void round_parameters<double>(const Device&, const Vector<double>&, const Vector<double>&);
template void round_parameters<bfloat16>(const Device&, const Vector<float>&,
                                         const Vector<bfloat16>&);

}  // namespace knapformer::model
