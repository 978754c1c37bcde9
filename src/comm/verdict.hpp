// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/operation_log.hpp"

namespace knapformer {

/// Why ranks cannot go on, the surest knowledge first: of failures at the same time the smallest
/// counts.
struct Failure {
  enum class Kind : std::int32_t {
    kComplaint,   ///< a rank said so
    kDeparture,   ///< an exception has destroyed the communicator of a rank
    kOutOfStep,   ///< ranks were seen to do different things
    kSilence,     ///< a rank that is waited for gives no answer
    kElsewhere,   ///< one that others may wait for gives none
    kUnexplained  ///< all answer
  };
  Kind kind = Kind::kComplaint;
  int rank = 0;  ///< who found it
  std::string text = {};

  friend auto operator<=>(const Failure&, const Failure&) = default;
};

/// What a rank that waits says of itself.
struct Account {
  OperationLog log = {};  ///< of the communicator that it is asked about
  double idle = 0;        ///< seconds without progress
  std::string doing = {};
};

/// A wait without progress, and what is known of the ranks. Ranks are those of the root: the
/// communicator that all others were split from.
struct Stall {
  int rank = 0;  ///< that waits
  double seconds = 0;
  std::string doing = {};
  std::vector<int> awaited = {};         ///< ranks; empty: any member
  int first_member = 0;                  ///< of the communicator
  int members = 1;                       ///< consecutive ranks
  int ranks = 1;                         ///< of the root
  std::map<int, Account> accounts = {};  ///< by rank, with our own
};

/// "rank 3", "ranks 1, 2 and 5 more".
std::string name_ranks(const std::vector<int>& ranks);

/// Who of the members started another operation than the others, and which; empty when the accounts
/// agree.
std::string out_of_step(const Stall& stall);

/// Who is at fault, as far as one can tell.
Failure judge(const Stall& stall);

}  // namespace knapformer
