// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/comm/communicator.hpp>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

namespace knapformer {

/// What two ranks tell each other before the bytes. Each side compares both directions, so both
/// come to the same verdict.
struct ExchangeHeader {
  std::uint64_t fingerprint = 0;
  std::int64_t sent_bytes = 0;
  std::int64_t expected_bytes = 0;
  std::uint64_t sent_shape = kEmptyShape;  // hash of the sizes of the ranges, in order
  std::uint64_t expected_shape = kEmptyShape;

  static constexpr std::uint64_t kEmptyShape = 0xcbf29ce484222325;

  bool matches(const ExchangeHeader& theirs) const;
};

/// Another rank that has bytes for this one or expects some.
struct ExchangePeer {
  int rank = 0;
  ExchangeHeader ours;
  ExchangeHeader theirs;
};

/// The peers of `rank` in an exchange of these ranges, by rank, in `memory`.
std::pmr::vector<ExchangePeer> exchange_peers(int rank, std::span<const SendRange> sends,
                                              std::span<const ReceiveRange> receives,
                                              std::uint64_t fingerprint,
                                              std::pmr::memory_resource* memory);

/// Fails on all ranks, in the same words on both sides, unless these mean the same exchange.
void verify(Communicator::Data& comm, const ExchangePeer& peer);

/// An exchange that waits for these members, for people.
std::string describe_exchange(const Communicator::Data& comm, std::vector<int> members);

}  // namespace knapformer
