// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/exchange_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/communicator_data.hpp"

namespace knapformer {
namespace {

void add(std::int64_t bytes, std::int64_t& total, std::uint64_t& shape) {
  total += bytes;
  shape = (shape ^ static_cast<std::uint64_t>(bytes)) * 0x100000001b3;  // FNV-1a
}

}  // namespace

bool ExchangeHeader::matches(const ExchangeHeader& theirs) const {
  return fingerprint == theirs.fingerprint && sent_bytes == theirs.expected_bytes &&
         expected_bytes == theirs.sent_bytes && sent_shape == theirs.expected_shape &&
         expected_shape == theirs.sent_shape;
}

std::pmr::vector<ExchangePeer> exchange_peers(int rank, std::span<const SendRange> sends,
                                              std::span<const ReceiveRange> receives,
                                              std::uint64_t fingerprint,
                                              std::pmr::memory_resource* memory) {
  std::pmr::vector<int> ranks(memory);
  ranks.reserve(sends.size() + receives.size());
  for (const SendRange& send : sends) {
    if (send.peer != rank && send.bytes > 0) ranks.push_back(send.peer);
  }
  for (const ReceiveRange& receive : receives) {
    if (receive.peer != rank && receive.bytes > 0) ranks.push_back(receive.peer);
  }
  std::ranges::sort(ranks);
  const auto more = std::ranges::unique(ranks);
  ranks.erase(more.begin(), more.end());
  std::pmr::vector<ExchangePeer> peers(memory);
  peers.reserve(ranks.size());
  for (const int peer : ranks) peers.push_back({peer, {}, {}});

  const auto header_of = [&](int peer) -> ExchangeHeader& {
    return std::ranges::lower_bound(peers, peer, {}, &ExchangePeer::rank)->ours;
  };
  for (const SendRange& send : sends) {
    if (send.peer == rank || send.bytes == 0) continue;
    ExchangeHeader& header = header_of(send.peer);
    add(send.bytes, header.sent_bytes, header.sent_shape);
  }
  for (const ReceiveRange& receive : receives) {
    if (receive.peer == rank || receive.bytes == 0) continue;
    ExchangeHeader& header = header_of(receive.peer);
    add(receive.bytes, header.expected_bytes, header.expected_shape);
  }
  for (ExchangePeer& peer : peers) peer.ours.fingerprint = fingerprint;
  return peers;
}

void verify(Communicator::Data& comm, const ExchangePeer& peer) {
  if (peer.ours.matches(peer.theirs)) return;
  const bool lower = comm.rank < peer.rank;
  const ExchangeHeader& a = lower ? peer.ours : peer.theirs;
  const ExchangeHeader& b = lower ? peer.theirs : peer.ours;
  comm.refuse(
      "an exchange",
      fmt::format(
          "exchange between ranks {} and {}: bytes of another plan or operation are refused "
          "(fingerprints {:016x} and {:016x}; {} bytes sent, {} expected; back: {} sent, {} "
          "expected). "
          "Call the same operations with the same widths in the same order on all ranks",
          comm.root_rank(std::min(comm.rank, peer.rank)),
          comm.root_rank(std::max(comm.rank, peer.rank)), a.fingerprint, b.fingerprint,
          a.sent_bytes, b.expected_bytes, b.sent_bytes, a.expected_bytes));
}

std::string describe_exchange(const Communicator::Data& comm, std::vector<int> members) {
  if (members.empty()) return "an exchange";
  for (int& member : members) member = comm.root_rank(member);
  return fmt::format("an exchange with {}", name_ranks(members));
}

}  // namespace knapformer
