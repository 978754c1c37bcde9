// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <nccl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace knapformer::nccl_double {

/// A peer, and whether it is sent to or received from.
using Pair = std::pair<int, bool>;
inline constexpr Pair kNoPair{-1, false};

inline constexpr int kPollsInProgress = 2;  // before a call is done, however fast it was

/// Something that was launched.
struct Operation {
  virtual ~Operation() = default;
  virtual void launch() = 0;
  virtual bool advance() = 0;  ///< whether it is done
  bool done = false;
};

}  // namespace knapformer::nccl_double

struct ncclComm {
  int rank = 0;
  int ranks = 0;
  int tag = 0;  // and the next three
  bool alive = true;
  bool ready = false;
  bool finalized = false;
  int polls_in_progress = knapformer::nccl_double::kPollsInProgress;
  ncclResult_t error = ncclSuccess;
  std::vector<int> world;  // rank in MPI_COMM_WORLD of each rank
  std::map<knapformer::nccl_double::Pair, std::int64_t>
      pair_groups;  // with messages of a pair, so far
  std::set<int> connected;
  std::vector<std::shared_ptr<knapformer::nccl_double::Operation>> operations;  // under way
};

namespace knapformer::nccl_double {

/// Of the double in this process.
struct State {
  std::vector<std::string> misuse;
  std::vector<std::unique_ptr<ncclComm>> comms;  // the dead ones too, to find them used
  int calls = 0;
  int failing_call = 0;
  bool background_error = false;
  bool stalled = false;
  bool shared_devices = false;
  int largest_group = 0;
  int groups = 0;
  int ids = 0;

  int depth = 0;
  bool group_failed = false;
  struct Grouped {
    ncclComm* comm;
    std::shared_ptr<Operation> operation;
    Pair pair;
  };
  std::vector<Grouped> group;
};

State& state();

/// Remembers what was called wrongly, for the test.
template <class... Parts>
ncclResult_t misused(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  state().misuse.push_back(text.str());
  return ncclInvalidUsage;
}

/// Counts a call; whether it is the one that is to fail.
bool fails();

/// Whether a communicator may be called.
bool is_usable(ncclComm* comm, const char* function);

/// Advances what is under way.
void progress();

}  // namespace knapformer::nccl_double
