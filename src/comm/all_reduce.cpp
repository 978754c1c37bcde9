// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <string>

#include "comm/communicator_data.hpp"

namespace knapformer {
namespace {

void check_same_size(const Communicator& group, std::size_t size) {
  const auto sizes = group.all_gather(std::span<const std::size_t>(&size, 1));
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    if (sizes[r] == sizes[0]) continue;
    throw SharedError(fmt::format("all_reduce_sum: {} elements on rank {} and {} on rank {}",
                                  sizes[r], group.root_rank(static_cast<int>(r)), sizes[0],
                                  group.root_rank(0)));
  }
}

}  // namespace

template <class T>
void Communicator::all_reduce_sum(
    const Kokkos::DefaultExecutionSpace& exec,
    const Kokkos::View<T*, Kokkos::DefaultExecutionSpace>& view) const {
  static const std::string kRegion = "KnapFormer::all_reduce";
  const Kokkos::Profiling::ScopedRegion region(kRegion);
  check_same_size(*this, view.size());
  data_->note({Operation::Kind::kAllReduce, view.size()});
  data_->transport->all_reduce_sum(exec, view);
}

template void Communicator::all_reduce_sum(
    const Kokkos::DefaultExecutionSpace&,
    const Kokkos::View<float*, Kokkos::DefaultExecutionSpace>&) const;
template void Communicator::all_reduce_sum(
    const Kokkos::DefaultExecutionSpace&,
    const Kokkos::View<double*, Kokkos::DefaultExecutionSpace>&) const;

}  // namespace knapformer
