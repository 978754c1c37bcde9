// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/mpi_transfer.hpp"

#include <algorithm>
#include <utility>

#include "comm/communicator_data.hpp"
#include "comm/copy_bytes.hpp"
#include "comm/mpi_check.hpp"
#include "comm/short_range.hpp"

namespace knapformer {
namespace {

using Exec = Transport::Exec;
using Memory = Exec::memory_space;

}  // namespace

MpiTransfer::MpiTransfer(Communicator::Data& comm,
                         std::shared_ptr<MpiTransport::HostBuffers> buffers, const Exec& exec)
    : comm_(comm),
      buffers_(std::move(buffers)),
      exec_(exec),
      tag_(comm.next_tag()),
      memory_(comm.host_memory.get()) {}

void MpiTransfer::start(std::span<const SendRange> sends, std::span<const ReceiveRange> receives,
                        std::uint64_t fingerprint) {
  static const std::string kLabel = "KnapFormer::exchange";
  peers_ = exchange_peers(comm_.rank, sends, receives, fingerprint, memory_.resource());
  lay_out(sends, out_);
  lay_out(receives, in_);
  if constexpr (kBytesOnHost) exec_.fence(kLabel);
  pack();
  exec_.fence(kLabel);
  post_all();
}

/// Finds the messages, by the sizes of the ranges alone: so the peer finds the same.
template <class Range>
void MpiTransfer::lay_out(std::span<const Range> ranges, Direction<Range>& direction) {
  const auto travels = [&](const Range& range) {
    return range.peer != comm_.rank && range.bytes > 0;
  };
  const auto index = [&](int peer) {
    const auto found = std::ranges::lower_bound(peers_, peer, {}, &ExchangePeer::rank);
    return static_cast<std::size_t>(found - peers_.begin());
  };
  std::pmr::vector<std::int64_t> short_bytes(peers_.size(), 0, memory_);
  std::int64_t total = 0;
  for (const Range& range : ranges) {
    if (!travels(range)) continue;
    const bool is_short = range.bytes <= kShortRange;
    if (is_short) short_bytes[index(range.peer)] += range.bytes;
    if (is_short || !comm_.options.direct) total += range.bytes;
  }
  direction.stage = take_stage(total);
  std::byte* next = direction.stage.get();
  std::pmr::vector<std::byte*> next_short(memory_);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    next_short.push_back(next);
    if (short_bytes[i] > 0) direction.messages.push_back({peers_[i].rank, next, short_bytes[i]});
    next += short_bytes[i];
  }
  for (const Range& range : ranges) {
    if (!travels(range)) continue;
    const bool is_short = range.bytes <= kShortRange;
    if (!is_short && comm_.options.direct) {
      direction.messages.push_back(range);
      continue;
    }
    std::byte*& place = is_short ? next_short[index(range.peer)] : next;
    direction.staged.push_back(range);
    direction.places.push_back(place);
    if (!is_short) direction.messages.push_back({range.peer, place, range.bytes});
    place += range.bytes;
  }
}

std::shared_ptr<std::byte> MpiTransfer::take_stage(std::int64_t bytes) {
  return comm_.options.direct ? comm_.device_buffers->take(exec_, bytes)
                              : buffers_->take(exec_, bytes);
}

void MpiTransfer::pack() {
  const auto copy = comm_.options.direct ? copy_bytes<Memory, Memory>
                                         : copy_bytes<Kokkos::SharedHostPinnedSpace, Memory>;
  for (std::size_t i = 0; i < out_.staged.size(); ++i) {
    copy(exec_, out_.places[i], out_.staged[i].data, out_.staged[i].bytes, false);
  }
}

void MpiTransfer::finish() {
  const auto copy = comm_.options.direct ? copy_bytes<Memory, Memory>
                                         : copy_bytes<Memory, Kokkos::SharedHostPinnedSpace>;
  for (std::size_t i = 0; i < in_.staged.size(); ++i) {
    copy(exec_, in_.staged[i].data, in_.places[i], in_.staged[i].bytes, false);
  }
}

/// Posts messages in parts of at most `largest` bytes, the same on both sides.
template <class Range, class Post>
void MpiTransfer::post(std::span<const Range> ranges, std::int64_t largest, const char* function,
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
  std::pmr::vector<ReceiveRange> header_receives(memory_);
  std::pmr::vector<SendRange> header_sends(memory_);
  for (ExchangePeer& peer : peers_) {
    header_receives.push_back(
        {peer.rank, reinterpret_cast<std::byte*>(&peer.theirs), kHeaderBytes});
    header_sends.push_back(
        {peer.rank, reinterpret_cast<const std::byte*>(&peer.ours), kHeaderBytes});
  }
  const std::int64_t largest = comm_.options.message_bytes;
  post<ReceiveRange>(header_receives, kHeaderBytes, "MPI_Irecv", receive);
  post<ReceiveRange>(in_.messages, largest, "MPI_Irecv", receive);
  receive_requests_ = requests_.size();
  post<SendRange>(header_sends, kHeaderBytes, "MPI_Isend", send);
  post<SendRange>(out_.messages, largest, "MPI_Isend", send);
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
