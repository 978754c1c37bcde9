// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/mpi_transfer.hpp"

#include <algorithm>
#include <utility>

#include "comm/communicator_data.hpp"
#include "comm/mpi_check.hpp"

namespace knapformer {
namespace {

using Exec = Transport::Exec;
template <class Space>
using Bytes = Kokkos::View<std::byte*, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
template <class Space>
using ConstBytes = Kokkos::View<const std::byte*, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

template <class Range>
std::int64_t bytes_of_others(std::span<const Range> ranges, int rank) {
  std::int64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.peer == rank ? 0 : range.bytes;
  return bytes;
}

}  // namespace

MpiTransfer::MpiTransfer(Communicator::Data& comm,
                         std::shared_ptr<MpiTransport::HostBuffers> buffers, const Exec& exec)
    : comm_(comm), buffers_(std::move(buffers)), exec_(exec), tag_(comm.next_tag()) {}

void MpiTransfer::start(std::span<const SendRange> sends, std::span<const ReceiveRange> receives,
                        std::uint64_t fingerprint) {
  peers_ = exchange_peers(comm_.rank, sends, receives, fingerprint);
  stage(sends, receives);
  exec_.fence("KnapFormer::exchange");
  post_all();
}

/// Enqueues what must happen on the device before MPI may start.
void MpiTransfer::stage(std::span<const SendRange> sends, std::span<const ReceiveRange> receives) {
  const bool direct = comm_.options.direct;
  if (!direct) {
    send_stage_ = buffers_->take(exec_, bytes_of_others(sends, comm_.rank));
    receive_stage_ = buffers_->take(exec_, bytes_of_others(receives, comm_.rank));
  }
  std::byte* next = send_stage_.get();
  for (SendRange send : sends) {
    if (send.peer == comm_.rank || send.bytes == 0) continue;
    if (!direct) {
      const auto size = static_cast<std::size_t>(send.bytes);
      Kokkos::deep_copy(exec_, Bytes<Kokkos::SharedHostPinnedSpace>(next, size),
                        ConstBytes<Exec::memory_space>(send.data, size));
      send.data = next;
      next += send.bytes;
    }
    sends_.push_back(send);
  }
  next = receive_stage_.get();
  for (ReceiveRange receive : receives) {
    if (receive.peer == comm_.rank || receive.bytes == 0) continue;
    if (!direct) {
      staged_.push_back(receive);
      receive.data = next;
      next += receive.bytes;
    }
    receives_.push_back(receive);
  }
}

/// Posts ranges in parts of at most `largest` bytes, the same on both sides.
template <class Range, class Post>
void MpiTransfer::post(const std::vector<Range>& ranges, std::int64_t largest, const char* function,
                       Post post_message) {
  for (const Range& range : ranges) {
    for (std::int64_t first = 0; first < range.bytes;) {
      const std::int64_t bytes = std::min(range.bytes - first, largest);
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(post_message(range.data + first, static_cast<int>(bytes), range.peer, &request),
                function);
      requests_.push_back(request);
      request_peers_.push_back(range.peer);
      first += bytes;
    }
  }
}

void MpiTransfer::post_all() {
  constexpr std::int64_t kHeaderBytes = sizeof(ExchangeHeader);
  const auto receive = [this](void* data, int bytes, int peer, MPI_Request* request) {
    return MPI_Irecv(data, bytes, MPI_BYTE, peer, tag_, comm_.comm, request);
  };
  const auto send = [this](const void* data, int bytes, int peer, MPI_Request* request) {
    return MPI_Isend(data, bytes, MPI_BYTE, peer, tag_, comm_.comm, request);
  };
  // Messages of a pair are received in the order sent, so the header comes first on both sides.
  std::vector<ReceiveRange> header_receives;
  std::vector<SendRange> header_sends;
  for (ExchangePeer& peer : peers_) {
    header_receives.push_back(
        {peer.rank, reinterpret_cast<std::byte*>(&peer.theirs), kHeaderBytes});
    header_sends.push_back(
        {peer.rank, reinterpret_cast<const std::byte*>(&peer.ours), kHeaderBytes});
  }
  post(header_receives, kHeaderBytes, "MPI_Irecv", receive);
  post(receives_, comm_.options.message_bytes, "MPI_Irecv", receive);
  receive_requests_ = requests_.size();
  post(header_sends, kHeaderBytes, "MPI_Isend", send);
  post(sends_, comm_.options.message_bytes, "MPI_Isend", send);
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
}

Progress MpiTransfer::poll() {
  int completed = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &completed,
                                indices_.data(), statuses_.data());
  if (code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI_Testsome");
  if (completed == MPI_UNDEFINED) return Progress::kDone;
  for (int i = 0; i < completed; ++i) {
    const auto index = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    const int error = statuses_[static_cast<std::size_t>(i)].MPI_ERROR;
    if (code == MPI_ERR_IN_STATUS && error != MPI_SUCCESS) {
      int error_class = error;
      MPI_Error_class(error, &error_class);
      // The sender's ranges are larger than ours. Its header says so, and is about to arrive.
      if (error_class != MPI_ERR_TRUNCATE || index < peers_.size())
        check_mpi(error, "MPI_Testsome");
      continue;
    }
    if (index < peers_.size()) verify(comm_, peers_[index]);
  }
  return completed > 0 ? Progress::kSome : Progress::kNone;
}

void MpiTransfer::finish() {
  for (std::size_t i = 0; i < staged_.size(); ++i) {
    const auto size = static_cast<std::size_t>(staged_[i].bytes);
    Kokkos::deep_copy(exec_, Bytes<Exec::memory_space>(staged_[i].data, size),
                      ConstBytes<Kokkos::SharedHostPinnedSpace>(receives_[i].data, size));
  }
}

std::vector<int> MpiTransfer::waited_for() const {
  std::vector<int> members;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] != MPI_REQUEST_NULL) members.push_back(request_peers_[i]);
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

std::string MpiTransfer::describe() const { return describe_exchange(comm_, waited_for()); }

bool MpiTransfer::withdraw() { return withdraw_messages(requests_, receive_requests_); }

}  // namespace knapformer
