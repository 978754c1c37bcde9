// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "comm/exchange_header.hpp"
#include "comm/mpi_transport.hpp"

namespace knapformer {

/// Messages of one tag. A peer gets a header, its short ranges as one message, and the others from
/// where they are.
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
  /// What goes one way. Bytes wait in `stage` where they travel with others, or where MPI cannot
  /// reach them.
  template <class Range>
  struct Direction {
    explicit Direction(std::pmr::polymorphic_allocator<> memory)
        : messages(memory), staged(memory), places(memory) {}
    std::pmr::vector<Range> messages;  // of one peer in the order sent
    std::pmr::vector<Range> staged;    // ranges as given
    std::pmr::vector<std::byte*> places;
    std::shared_ptr<std::byte> stage;
  };

  template <class Range>
  void lay_out(std::span<const Range> ranges, Direction<Range>& direction);
  std::shared_ptr<std::byte> take_stage(std::int64_t bytes);
  void pack();
  void post_all();
  template <class Range, class Post>
  void post(std::span<const Range> ranges, std::int64_t largest, const char* function,
            Post post_message);

  Communicator::Data& comm_;
  std::shared_ptr<MpiTransport::HostBuffers> buffers_;
  Exec exec_;
  int tag_;
  std::pmr::polymorphic_allocator<> memory_;
  std::pmr::vector<ExchangePeer> peers_{memory_};
  Direction<SendRange> out_{memory_};
  Direction<ReceiveRange> in_{memory_};
  // Headers received, bytes received, headers sent, bytes sent.
  std::pmr::vector<MPI_Request> requests_{memory_};
  std::pmr::vector<int> request_peers_{memory_};
  std::pmr::vector<int> indices_{memory_};  // of completed requests, and how they did
  std::pmr::vector<MPI_Status> statuses_{memory_};
  std::size_t receive_requests_ = 0;
};

}  // namespace knapformer
