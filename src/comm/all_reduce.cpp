// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <algorithm>

#include "comm/communicator_data.hpp"
#include "comm/mpi_check.hpp"

namespace knapformer {
namespace {

template <class T>
MPI_Datatype mpi_type();
template <>
MPI_Datatype mpi_type<double>() {
  return MPI_DOUBLE;
}
template <>
MPI_Datatype mpi_type<float>() {
  return MPI_FLOAT;
}

void check_same_size(const Communicator& group, std::size_t size) {
  const auto sizes = group.all_gather(std::span<const std::size_t>(&size, 1));
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    if (sizes[r] == sizes[0]) continue;
    throw Error(fmt::format("all_reduce_sum: {} elements on rank {} and {} on rank 0", sizes[r], r,
                            sizes[0]));
  }
}

/// `keep` holds the memory of `data`.
template <class T>
void all_reduce_host(Communicator::Data& comm, T* data, std::size_t size,
                     std::shared_ptr<void> keep) {
  const std::size_t most =
      std::max<std::size_t>(1, static_cast<std::size_t>(comm.options.message_bytes) / sizeof(T));
  for (std::size_t first = 0; first < size; first += most) {
    const int count =
        mpi_count(static_cast<std::int64_t>(std::min(most, size - first)), "MPI_Iallreduce");
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, data + first, count, mpi_type<T>(), MPI_SUM, comm.comm,
                             &request),
              "MPI_Iallreduce");
    comm.wait(request, "all-reduce", keep);
  }
}

}  // namespace

// MPI_Allreduce gives all ranks the one result of a reduction (MPI 4.0, section 6.9.6), whatever
// the algorithm: no rank adds in an order of its own.
template <class T>
void Communicator::all_reduce_sum(
    const Kokkos::DefaultExecutionSpace& exec,
    const Kokkos::View<T*, Kokkos::DefaultExecutionSpace>& view) const {
  check_same_size(*this, view.size());
  using HostView =
      Kokkos::View<T*, Kokkos::SharedHostPinnedSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  if (data_->options.direct) {
    exec.fence("KnapFormer::all_reduce_sum");
    all_reduce_host(*data_, view.data(), view.size(),
                    std::make_shared<std::decay_t<decltype(view)>>(view));
    return;
  }
  const auto buffer =
      data_->host_buffers->take(exec, static_cast<std::int64_t>(view.size() * sizeof(T)));
  const HostView host(reinterpret_cast<T*>(buffer.get()), view.size());
  Kokkos::deep_copy(exec, host, view);
  exec.fence("KnapFormer::all_reduce_sum");
  all_reduce_host(*data_, host.data(), host.size(), buffer);
  Kokkos::deep_copy(exec, view, host);
}

template void Communicator::all_reduce_sum(
    const Kokkos::DefaultExecutionSpace&,
    const Kokkos::View<float*, Kokkos::DefaultExecutionSpace>&) const;
template void Communicator::all_reduce_sum(
    const Kokkos::DefaultExecutionSpace&,
    const Kokkos::View<double*, Kokkos::DefaultExecutionSpace>&) const;

}  // namespace knapformer
