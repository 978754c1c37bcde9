// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <memory_resource>
#include <string>
#include <vector>

#include "comm/exchange_header.hpp"
#include "comm/nccl_stream.hpp"
#include "comm/nccl_transport.hpp"

namespace knapformer {

/// Headers over MPI, and once they fit, ranges over NCCL.
class NcclTransfer : public Transfer {
 public:
  using Exec = Transport::Exec;

  NcclTransfer(Communicator::Data& comm, NcclTransport& transport, const Exec& exec);

  /// Returns when all ranges are in the stream.
  void start(std::span<const SendRange> sends, std::span<const ReceiveRange> receives,
             std::uint64_t fingerprint) override;
  Progress poll() override;
  std::string describe() const override;
  std::vector<int> waited_for() const override;
  void finish() override {}  // NCCL has put the bytes where they belong
  bool withdraw() override;

 private:
  void post_headers();
  Progress poll_headers();

  Communicator::Data& comm_;
  NcclTransport& transport_;
  cudaStream_t stream_;
  int tag_;
  std::pmr::polymorphic_allocator<> memory_;
  std::pmr::vector<ExchangePeer> peers_{memory_};
  std::pmr::vector<MPI_Request> requests_{memory_};  // headers received, headers sent
  std::pmr::vector<int> indices_{memory_};           // of completed requests
  StreamMark mark_;
};

}  // namespace knapformer
