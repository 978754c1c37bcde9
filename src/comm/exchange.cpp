// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <algorithm>
#include <map>
#include <utility>

#include "comm/communicator_data.hpp"
#include "comm/mpi_check.hpp"

namespace knapformer {
namespace {

using Exec = Kokkos::DefaultExecutionSpace;
template <class Space>
using Bytes = Kokkos::View<std::byte*, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
template <class Space>
using ConstBytes = Kokkos::View<const std::byte*, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// What two ranks tell each other before the bytes. Each side compares both directions, so both
/// come to the same verdict.
struct Header {
  std::uint64_t fingerprint = 0;
  std::int64_t sent_bytes = 0;
  std::int64_t expected_bytes = 0;
  std::uint64_t sent_shape = kEmptyShape;  // hash of the sizes of the ranges, in order
  std::uint64_t expected_shape = kEmptyShape;

  static constexpr std::uint64_t kEmptyShape = 0xcbf29ce484222325;

  void add(std::int64_t bytes, std::int64_t& total, std::uint64_t& shape) {
    total += bytes;
    shape = (shape ^ static_cast<std::uint64_t>(bytes)) * 0x100000001b3;  // FNV-1a
  }
  bool matches(const Header& theirs) const {
    return fingerprint == theirs.fingerprint && sent_bytes == theirs.expected_bytes &&
           expected_bytes == theirs.sent_bytes && sent_shape == theirs.expected_shape &&
           expected_shape == theirs.sent_shape;
  }
};

struct Peer {
  int rank = 0;
  Header ours;
  Header theirs;
};

template <class Range>
void check_ranges(const Communicator::Data& comm, std::span<const Range> ranges) {
  for (const Range& range : ranges) {
    if (range.peer < 0 || range.peer >= comm.size || range.bytes < 0 ||
        (range.bytes > 0 && range.data == nullptr)) {
      throw Error(fmt::format("exchange: a range of {} bytes at {} for rank {} of {}", range.bytes,
                              static_cast<const void*>(range.data), range.peer, comm.size));
    }
  }
}

/// Sends to oneself, in the order given, whatever the boundaries of the ranges on the two sides.
void copy_own(const Exec& exec, int rank, std::span<const SendRange> sends,
              std::span<const ReceiveRange> receives) {
  std::size_t to = 0;
  std::int64_t filled = 0;  // of receives[to]
  const auto skip = [&] {
    while (to < receives.size() && (receives[to].peer != rank || filled == receives[to].bytes)) {
      ++to;
      filled = 0;
    }
  };
  for (const SendRange& send : sends) {
    if (send.peer != rank) continue;
    for (std::int64_t taken = 0; taken < send.bytes;) {
      skip();
      if (to == receives.size()) throw Error("exchange: more own bytes are sent than received");
      const std::int64_t bytes = std::min(send.bytes - taken, receives[to].bytes - filled);
      const auto size = static_cast<std::size_t>(bytes);
      Kokkos::deep_copy(exec, Bytes<Exec::memory_space>(receives[to].data + filled, size),
                        ConstBytes<Exec::memory_space>(send.data + taken, size));
      taken += bytes;
      filled += bytes;
    }
  }
  skip();
  if (to != receives.size()) throw Error("exchange: fewer own bytes are sent than received");
}

template <class Range>
std::int64_t bytes_of_others(std::span<const Range> ranges, int rank) {
  std::int64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.peer == rank ? 0 : range.bytes;
  return bytes;
}

}  // namespace

struct Request::State {
  State(std::shared_ptr<Communicator::Data> communicator, const Exec& instance)
      : comm(std::move(communicator)), exec(instance), tag(comm->next_tag()) {}

  void find_peers(std::span<const SendRange> sends, std::span<const ReceiveRange> receives,
                  std::uint64_t fingerprint);
  void stage(std::span<const SendRange> sends, std::span<const ReceiveRange> receives);
  void start();
  Progress poll();
  void finish();
  std::string describe() const;
  bool withdraw();

  std::shared_ptr<Communicator::Data> comm;
  Exec exec;
  int tag;
  std::vector<Peer> peers;
  std::vector<SendRange> sends;        // what MPI sends and receives: the caller's ranges, or the
  std::vector<ReceiveRange> receives;  // same in pinned host memory
  std::vector<ReceiveRange> staged;    // where the received bytes belong when they are not there
  std::shared_ptr<std::byte> send_stage;
  std::shared_ptr<std::byte> receive_stage;
  std::vector<MPI_Request> requests;  // headers received, bytes received, headers sent, bytes sent
  std::vector<int> request_peers;
  std::vector<int> indices;  // of completed requests, and how they did
  std::vector<MPI_Status> statuses;
  std::size_t receive_requests = 0;
  std::shared_ptr<void> keep_alive;
  std::function<void()> then;

 private:
  void verify(const Peer& peer);
  template <class Range, class Post>
  void post(const std::vector<Range>& ranges, std::int64_t largest, const char* function,
            Post post_message);
};

void Request::State::find_peers(std::span<const SendRange> given_sends,
                                std::span<const ReceiveRange> given_receives,
                                std::uint64_t fingerprint) {
  std::map<int, Header> headers;
  for (const SendRange& send : given_sends) {
    if (send.peer == comm->rank || send.bytes == 0) continue;
    Header& header = headers[send.peer];
    header.add(send.bytes, header.sent_bytes, header.sent_shape);
  }
  for (const ReceiveRange& receive : given_receives) {
    if (receive.peer == comm->rank || receive.bytes == 0) continue;
    Header& header = headers[receive.peer];
    header.add(receive.bytes, header.expected_bytes, header.expected_shape);
  }
  for (auto& [rank, header] : headers) {
    header.fingerprint = fingerprint;
    peers.push_back({rank, header, {}});
  }
}

/// Enqueues what must happen on the device before MPI may start.
void Request::State::stage(std::span<const SendRange> given_sends,
                           std::span<const ReceiveRange> given_receives) {
  const bool direct = comm->options.direct;
  if (!direct) {
    send_stage = comm->host_buffers->take(exec, bytes_of_others(given_sends, comm->rank));
    receive_stage = comm->host_buffers->take(exec, bytes_of_others(given_receives, comm->rank));
  }
  std::byte* next = send_stage.get();
  for (SendRange send : given_sends) {
    if (send.peer == comm->rank || send.bytes == 0) continue;
    if (!direct) {
      const auto size = static_cast<std::size_t>(send.bytes);
      Kokkos::deep_copy(exec, Bytes<Kokkos::SharedHostPinnedSpace>(next, size),
                        ConstBytes<Exec::memory_space>(send.data, size));
      send.data = next;
      next += send.bytes;
    }
    sends.push_back(send);
  }
  next = receive_stage.get();
  for (ReceiveRange receive : given_receives) {
    if (receive.peer == comm->rank || receive.bytes == 0) continue;
    if (!direct) {
      staged.push_back(receive);
      receive.data = next;
      next += receive.bytes;
    }
    receives.push_back(receive);
  }
}

/// Posts ranges in parts of at most `largest` bytes, the same on both sides.
template <class Range, class Post>
void Request::State::post(const std::vector<Range>& ranges, std::int64_t largest,
                          const char* function, Post post_message) {
  for (const Range& range : ranges) {
    for (std::int64_t first = 0; first < range.bytes;) {
      const std::int64_t bytes = std::min(range.bytes - first, largest);
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(post_message(range.data + first, static_cast<int>(bytes), range.peer, &request),
                function);
      requests.push_back(request);
      request_peers.push_back(range.peer);
      first += bytes;
    }
  }
}

void Request::State::start() {
  const auto receive = [this](void* data, int bytes, int peer, MPI_Request* request) {
    return MPI_Irecv(data, bytes, MPI_BYTE, peer, tag, comm->comm, request);
  };
  const auto send = [this](const void* data, int bytes, int peer, MPI_Request* request) {
    return MPI_Isend(data, bytes, MPI_BYTE, peer, tag, comm->comm, request);
  };
  // Messages of a pair are received in the order sent, so the header comes first on both sides.
  std::vector<ReceiveRange> header_receives;
  std::vector<SendRange> header_sends;
  for (Peer& peer : peers) {
    header_receives.push_back(
        {peer.rank, reinterpret_cast<std::byte*>(&peer.theirs), sizeof(Header)});
    header_sends.push_back(
        {peer.rank, reinterpret_cast<const std::byte*>(&peer.ours), sizeof(Header)});
  }
  post(header_receives, sizeof(Header), "MPI_Irecv", receive);
  post(receives, comm->options.message_bytes, "MPI_Irecv", receive);
  receive_requests = requests.size();
  post(header_sends, sizeof(Header), "MPI_Isend", send);
  post(sends, comm->options.message_bytes, "MPI_Isend", send);
  indices.resize(requests.size());
  statuses.resize(requests.size());
}

void Request::State::verify(const Peer& peer) {
  if (peer.ours.matches(peer.theirs)) return;
  const bool lower = comm->rank < peer.rank;
  const Header& a = lower ? peer.ours : peer.theirs;
  const Header& b = lower ? peer.theirs : peer.ours;
  comm->fail(fmt::format(
      "exchange between ranks {} and {}: bytes of another plan or operation are refused "
      "(fingerprints {:016x} and {:016x}; {} bytes sent, {} expected; back: {} sent, {} expected). "
      "Call "
      "the same operations with the same widths in the same order on all ranks",
      std::min(comm->rank, peer.rank), std::max(comm->rank, peer.rank), a.fingerprint,
      b.fingerprint, a.sent_bytes, b.expected_bytes, b.sent_bytes, a.expected_bytes));
}

Progress Request::State::poll() {
  int completed = 0;
  const int code = MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &completed,
                                indices.data(), statuses.data());
  if (code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI_Testsome");
  if (completed == MPI_UNDEFINED) return Progress::kDone;
  for (int i = 0; i < completed; ++i) {
    const auto index = static_cast<std::size_t>(indices[static_cast<std::size_t>(i)]);
    const int error = statuses[static_cast<std::size_t>(i)].MPI_ERROR;
    if (code == MPI_ERR_IN_STATUS && error != MPI_SUCCESS) {
      int error_class = error;
      MPI_Error_class(error, &error_class);
      // The sender's ranges are larger than ours. Its header says so, and is about to arrive.
      if (error_class != MPI_ERR_TRUNCATE || index < peers.size()) check_mpi(error, "MPI_Testsome");
      continue;
    }
    if (index < peers.size()) verify(peers[index]);
  }
  return completed > 0 ? Progress::kSome : Progress::kNone;
}

/// All bytes are there: brings them where they belong.
void Request::State::finish() {
  for (std::size_t i = 0; i < staged.size(); ++i) {
    const auto size = static_cast<std::size_t>(staged[i].bytes);
    Kokkos::deep_copy(exec, Bytes<Exec::memory_space>(staged[i].data, size),
                      ConstBytes<Kokkos::SharedHostPinnedSpace>(receives[i].data, size));
  }
  if (then) then();
}

std::string Request::State::describe() const {
  constexpr std::size_t kNamed = 8;
  std::vector<int> waited_for;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] != MPI_REQUEST_NULL) waited_for.push_back(request_peers[i]);
  }
  std::sort(waited_for.begin(), waited_for.end());
  waited_for.erase(std::unique(waited_for.begin(), waited_for.end()), waited_for.end());
  std::string names;
  for (std::size_t i = 0; i < std::min(kNamed, waited_for.size()); ++i) {
    names += fmt::format("{}{}", i == 0 ? "" : ", ", waited_for[i]);
  }
  if (waited_for.size() > kNamed) names += fmt::format(" and {} more", waited_for.size() - kNamed);
  return fmt::format("an exchange (tag {}) with rank {}", tag, names);
}

/// Takes back what is pending. False when MPI may still touch the memory of the exchange.
bool Request::State::withdraw() {
  for (std::size_t i = 0; i < receive_requests; ++i) {
    if (requests[i] != MPI_REQUEST_NULL) MPI_Cancel(&requests[i]);
  }
  bool all_done = true;
  for (MPI_Request& request : requests) {
    int done = 0;
    const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    all_done = all_done && (done || code != MPI_SUCCESS);
  }
  return all_done;
}

Request::Request() = default;
Request::Request(Request&&) noexcept = default;
Request::Request(std::unique_ptr<State> state) : state_(std::move(state)) {}

Request& Request::operator=(Request&& other) noexcept {
  Request waited_for(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

Request::~Request() {
  if (!state_) return;
  const std::shared_ptr<Communicator::Data> comm = state_->comm;
  try {
    wait();
  } catch (const std::exception& error) {
    comm->log(error.what());
  }
}

void Request::wait() {
  if (!state_) return;
  std::unique_ptr<State> state = std::move(state_);
  Kokkos::Profiling::ScopedRegion region("KnapFormer::Request::wait");
  try {
    state->comm->wait({[&] { return state->poll(); }, [&] { return state->describe(); }});
  } catch (...) {
    if (!state->withdraw()) keep_for_good(std::move(state));
    throw;
  }
  state->finish();
}

Request Communicator::start_exchange(const Kokkos::DefaultExecutionSpace& exec,
                                     std::span<const SendRange> sends,
                                     std::span<const ReceiveRange> receives,
                                     std::uint64_t fingerprint, std::shared_ptr<void> keep_alive,
                                     std::function<void()> then) const {
  data_->check_usable();
  auto state = std::make_unique<Request::State>(data_, exec);
  state->keep_alive = std::move(keep_alive);
  state->then = std::move(then);
  try {
    check_ranges(*data_, sends);
    check_ranges(*data_, receives);
    copy_own(exec, rank(), sends, receives);
    state->find_peers(sends, receives, fingerprint);
    state->stage(sends, receives);
    exec.fence("KnapFormer::exchange");
    state->start();
  } catch (const std::exception& error) {  // memory may be short on this rank alone
    if (!state->withdraw()) keep_for_good(std::move(state));
    fail(error.what());
  }
  return Request(std::move(state));
}

}  // namespace knapformer
