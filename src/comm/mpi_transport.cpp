// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/mpi_transport.hpp"

#include <algorithm>

#include "comm/communicator_data.hpp"
#include "comm/mpi_check.hpp"
#include "comm/mpi_transfer.hpp"

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
    comm.wait(request, "an all-reduce", keep);
  }
}

}  // namespace

MpiTransport::MpiTransport(Communicator::Data& comm)
    : comm_(comm), buffers_(std::make_shared<HostBuffers>(comm.host_memory)) {}

std::shared_ptr<Transfer> MpiTransport::new_transfer(const Exec& exec) {
  return make_recycled<MpiTransfer>(comm_.host_memory, comm_, buffers_, exec);
}

// MPI_Allreduce gives all ranks the one result of a reduction (MPI 4.0, section 6.9.6), whatever
// the algorithm: no rank adds in an order of its own.
template <class T>
void MpiTransport::all_reduce(const Exec& exec, const Kokkos::View<T*, Exec>& view) {
  using HostView =
      Kokkos::View<T*, Kokkos::SharedHostPinnedSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  if (comm_.options.direct) {
    exec.fence("KnapFormer::all_reduce_sum");
    all_reduce_host(comm_, view.data(), view.size(),
                    std::make_shared<std::decay_t<decltype(view)>>(view));
    return;
  }
  const auto buffer = buffers_->take(exec, static_cast<std::int64_t>(view.size() * sizeof(T)));
  const HostView host(reinterpret_cast<T*>(buffer.get()), view.size());
  Kokkos::deep_copy(exec, host, view);
  exec.fence("KnapFormer::all_reduce_sum");
  all_reduce_host(comm_, host.data(), host.size(), buffer);
  Kokkos::deep_copy(exec, view, host);
}

void MpiTransport::all_reduce_sum(const Exec& exec, const Kokkos::View<float*, Exec>& view) {
  all_reduce(exec, view);
}
void MpiTransport::all_reduce_sum(const Exec& exec, const Kokkos::View<double*, Exec>& view) {
  all_reduce(exec, view);
}

}  // namespace knapformer
