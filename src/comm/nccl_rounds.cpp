// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/nccl_rounds.hpp"

#include <algorithm>

namespace knapformer {

NcclRounds::NcclRounds(int ranks, std::int64_t limit)
    : others_(std::max(1, ranks - 1)),
      peers_(std::min(others_, limit / 2)),
      messages_(limit / 2 / peers_),
      peer_rounds_((others_ + peers_ - 1) / peers_) {}

// By the distance from sender to receiver: each rank has one peer at each distance to send to, and
// one to receive from, so the rounds are as full for all.
std::int64_t NcclRounds::round(int from, int to, std::int64_t index) const {
  const std::int64_t ranks = others_ + 1;
  const std::int64_t distance = (to - from + ranks) % ranks;
  return index / messages_ * peer_rounds_ + (distance - 1) / peers_;
}

}  // namespace knapformer
