// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/comm/communicator.hpp>
#include <span>
#include <vector>

#include "route/speed_estimate.hpp"

namespace knapformer {

/// What every rank says of itself, followed by its lengths and then its costs as far as there is
/// room.
struct RankHeader {
  std::int64_t problem = 0;  ///< with its numbers, 0 for none
  std::int64_t index = 0;    ///< of the sequence in question, and the offending value
  std::int64_t value = 0;
  std::int64_t sequences = 0;
  std::int64_t has_costs = 0;
  std::uint64_t configuration = 0;  ///< hash of the options
  BusyReport busy = {};             ///< since it last spoke

  std::int64_t numbers() const { return has_costs ? 2 * sequences : sequences; }
};

/// Problems, sequences and costs of one rank's numbers.
RankHeader inspect(std::span<const std::int64_t> lengths, std::span<const std::int64_t> costs);

/// The block that a rank sends: its header, and as many of its numbers as there is room for.
std::vector<std::int64_t> pack_block(const RankHeader& header,
                                     std::span<const std::int64_t> numbers, std::int64_t room);

/// What all ranks say.
struct Metadata {
  Metadata(std::span<const std::int64_t> blocks, std::int64_t room);

  /// Throws the same Error on every rank when one of them has a problem or other options.
  void check(const Communicator& group) const;
  bool has_problem(const Communicator& group) const;

  /// The largest count of numbers of a rank: more than there was room for if not all are there.
  std::int64_t most_numbers() const;

  std::vector<RankHeader> headers;
  std::vector<std::vector<std::int64_t>> numbers;
};

}  // namespace knapformer
