// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>

namespace knapformer {

/// NCCL takes at most this many operations between ncclGroupStart and ncclGroupEnd (its user guide,
/// "Group calls").
inline constexpr std::int64_t kNcclGroupLimit = 2048;

/// Splits the sends and receives of an exchange into rounds, each of which is one NCCL group on
/// every rank that has something in it.
///
/// The round of a message depends on its two ranks and its place among those of the pair alone, so
/// both ends put it into the same one without asking. All ranks go through their rounds in
/// ascending order. Then none waits for ever: in the lowest round that any rank still has to
/// finish, all its peers have arrived or are on their way, since nothing before it holds them up.
class NcclRounds {
 public:
  /// For exchanges of `ranks` ranks; a group has at most `limit` operations, 2 or more.
  explicit NcclRounds(int ranks, std::int64_t limit = kNcclGroupLimit);

  /// The round of the message with the given index, from 0, among those of the rank `from` to the
  /// other rank `to`.
  std::int64_t round(int from, int to, std::int64_t index) const;

 private:
  std::int64_t others_;       // ranks
  std::int64_t peers_;        // that a rank sends to in one round, and as many it receives from
  std::int64_t messages_;     // to each of them in one round
  std::int64_t peer_rounds_;  // until all others had their turn
};

}  // namespace knapformer
