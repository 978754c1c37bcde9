// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "comm/nccl_communicator.hpp"
#include "comm/nccl_rounds.hpp"
#include "comm/transport.hpp"

namespace knapformer {

/// Grouped sends and receives, and reductions, on the stream of the caller.
///
/// Why it cannot deadlock. MPI carries host buffers only and never waits for the device, and no
/// thread is ever inside a blocking call of either library: all waiting is done in
/// Communicator::Data::wait(), which polls. What is left is what ranks wait for:
///  1. All ranks start exchanges and reductions, and call host collectives, in the same order.
///  2. A rank launches an exchange when the headers of its peers have arrived over MPI, so when
///     they have called it too, and returns when all its groups are in the stream. So groups are
///     launched in the order of 1, on all ranks alike, as NCCL demands.
///  3. Once launched, a group needs no host any more. It completes when the groups before it have
///     and its peers have launched theirs: rounds see to that within an exchange (NcclRounds), the
///     order of 1 among exchanges.
/// Take the first call in the order of 1 that some rank has not finished: its peers need nothing
/// later than that call to come there, so it goes on, or a peer is stuck outside of this library,
/// and then the time-out names it.
///
/// Pairs that do not fit are found before anything is launched. Whoever uses several communicators
/// that share ranks must start exchanges on them in the same order on all ranks too, and before
/// NCCL 2.26 have one of them at a time in flight (its user guide, "Using multiple NCCL
/// communicators concurrently").
class NcclTransport : public Transport {
 public:
  /// Collective. Connects the peers that `comm.options.nccl_peers` asks for.
  explicit NcclTransport(Communicator::Data& comm);

  TransportKind kind() const override { return TransportKind::kNccl; }
  std::shared_ptr<Transfer> new_transfer(const Exec& exec) override;
  void all_reduce_sum(const Exec& exec, const Kokkos::View<float*, Exec>& view) override;
  void all_reduce_sum(const Exec& exec, const Kokkos::View<double*, Exec>& view) override;

  /// Puts ranges of other ranks into the stream, in as many groups as NCCL's limit asks for; empty
  /// ones and those of this rank are left out.
  void launch(cudaStream_t stream, std::span<const SendRange> sends,
              std::span<const ReceiveRange> receives, const std::function<std::string()>& what);

  NcclCommunicator& nccl() { return nccl_; }

 private:
  template <class T>
  void all_reduce(const Exec& exec, const Kokkos::View<T*, Exec>& view, ncclDataType_t type);
  void connect_peers();
  void wait_for(cudaStream_t stream, const std::function<std::string()>& what);

  Communicator::Data& comm_;
  NcclRounds rounds_;
  NcclCommunicator nccl_;
};

}  // namespace knapformer
