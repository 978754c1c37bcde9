// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "comm/communicator_data.hpp"
#include "comm/copy_bytes.hpp"

namespace knapformer {
namespace {

using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;

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

template <class Range>
bool travels(int rank, std::span<const Range> ranges) {
  return std::ranges::any_of(
      ranges, [&](const Range& range) { return range.peer != rank && range.bytes > 0; });
}

/// Sends to oneself, in the order given, whatever the boundaries of the ranges on the two sides.
/// Comes after the transfer has started: on the host that is MPI's, which has fenced `exec`.
void copy_own(const Exec& exec, int rank, std::span<const SendRange> sends,
              std::span<const ReceiveRange> receives) {
  std::int64_t total = 0;
  for (const SendRange& send : sends) total += send.peer == rank ? send.bytes : 0;
  const bool many = total >= kManyBytes;
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
      copy_bytes<Memory, Memory>(exec, receives[to].data + filled, send.data + taken, bytes, many);
      taken += bytes;
      filled += bytes;
    }
  }
  skip();
  if (to != receives.size()) throw Error("exchange: fewer own bytes are sent than received");
}

}  // namespace

struct Request::State {
  std::shared_ptr<Communicator::Data> comm;
  std::shared_ptr<void> keep_alive;
  std::function<void()> then;
  std::shared_ptr<Transfer> transfer;
  std::optional<Seconds> started = {};  ///< none when nothing travels
};

Request::Request() = default;
Request::Request(Request&&) noexcept = default;
Request::Request(std::shared_ptr<State> state) : state_(std::move(state)) {}

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
  std::shared_ptr<State> state = std::move(state_);
  static const std::string kRegion = "KnapFormer::Request::wait";
  Kokkos::Profiling::ScopedRegion region(kRegion);
  try {
    const auto& transfer = state->transfer;
    state->comm->wait({[&] { return transfer->poll(); }, [&] { return transfer->describe(); },
                       [&] { return transfer->waited_for(); }, state->started});
  } catch (...) {
    if (!state->transfer->withdraw()) keep_for_good(std::move(state));
    throw;
  }
  state->transfer->finish();
  if (state->then) state->then();
}

Request Communicator::start_exchange(const Kokkos::DefaultExecutionSpace& exec,
                                     std::span<const SendRange> sends,
                                     std::span<const ReceiveRange> receives,
                                     std::uint64_t fingerprint, std::shared_ptr<void> keep_alive,
                                     std::function<void()> then) const {
  data_->check_usable();
  data_->note({Operation::Kind::kExchange, fingerprint});
  return guard([&] {  // memory may be short on this rank alone
    auto state =
        make_recycled<Request::State>(data_->host_memory, data_, std::move(keep_alive),
                                      std::move(then), data_->transport->new_transfer(exec));
    try {
      check_ranges(*data_, sends);
      check_ranges(*data_, receives);
      state->transfer->start(sends, receives, fingerprint);
      copy_own(exec, rank(), sends, receives);
      if (travels(rank(), sends) || travels(rank(), receives)) state->started = process_seconds();
    } catch (...) {
      if (!state->transfer->withdraw()) keep_for_good(std::move(state));
      throw;
    }
    return Request(std::move(state));
  });
}

}  // namespace knapformer
