// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/exchange_header.hpp"
#include "comm/mpi_transport.hpp"

namespace knapformer {

/// Headers and ranges as messages of one tag.
class MpiTransfer : public Transfer {
 public:
  using Exec = Transport::Exec;

  MpiTransfer(Communicator::Data& comm, std::shared_ptr<MpiTransport::HostBuffers> buffers,
              const Exec& exec);

  /// Fences `exec` before MPI sees the bytes.
  void start(std::span<const SendRange> sends, std::span<const ReceiveRange> receives,
             std::uint64_t fingerprint) override;
  Progress poll() override;
  std::string describe() const override;
  std::vector<int> waited_for() const override;
  void finish() override;
  bool withdraw() override;

 private:
  void stage(std::span<const SendRange> sends, std::span<const ReceiveRange> receives);
  void post_all();
  template <class Range, class Post>
  void post(const std::vector<Range>& ranges, std::int64_t largest, const char* function,
            Post post_message);

  Communicator::Data& comm_;
  std::shared_ptr<MpiTransport::HostBuffers> buffers_;
  Exec exec_;
  int tag_;
  std::vector<ExchangePeer> peers_;
  std::vector<SendRange> sends_;        // what MPI sends and receives: the caller's ranges, or the
  std::vector<ReceiveRange> receives_;  // same in pinned host memory
  std::vector<ReceiveRange> staged_;    // where the received bytes belong when they are not there
  std::shared_ptr<std::byte> send_stage_;
  std::shared_ptr<std::byte> receive_stage_;
  std::vector<MPI_Request> requests_;  // headers received, bytes received, headers sent, bytes sent
  std::vector<int> request_peers_;
  std::vector<int> indices_;  // of completed requests, and how they did
  std::vector<MPI_Status> statuses_;
  std::size_t receive_requests_ = 0;
};

}  // namespace knapformer
