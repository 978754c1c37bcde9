// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The calls of NCCL.

#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <knapformer/comm/mpi.hpp>

#include "operations.hpp"
#include "state.hpp"

using namespace knapformer::nccl_double;  // NOLINT: the calls themselves are global

namespace {

constexpr int kGroupLimit = 2048;

void launch(ncclComm* comm, std::shared_ptr<Operation> operation) {
  if (state().stalled) operation = make_stalled();
  operation->launch();
  comm->operations.push_back(std::move(operation));
}

/// Adds an operation to the open group.
ncclResult_t add(ncclComm* comm, const char* function, std::shared_ptr<Operation> operation,
                 Pair pair = kNoPair) {
  if (!is_usable(comm, function)) return ncclInvalidUsage;
  if (comm->finalized) return misused(function, ": the communicator is finalized");
  if (state().depth == 0) return misused(function, " outside of a group");
  if (fails()) {
    state().group_failed = true;
    return ncclSystemError;
  }
  state().group.push_back({comm, std::move(operation), pair});
  return ncclSuccess;
}

ncclResult_t add_message(ncclComm* comm, const char* function, int peer, ncclDataType_t type,
                         std::shared_ptr<Operation> operation, bool is_send) {
  if (type != ncclInt8) return misused(function, ": messages here are bytes");
  const ncclResult_t result = add(comm, function, std::move(operation), {peer, is_send});
  if (result != ncclSuccess) return result;
  if (peer < 0 || peer >= comm->ranks || peer == comm->rank) {
    return misused(function, ": rank ", comm->rank, " of ", comm->ranks, " with rank ", peer);
  }
  comm->connected.insert(peer);
  return ncclSuccess;
}

void launch_group() {
  State& s = state();
  std::set<std::pair<ncclComm*, Pair>> pairs;
  for (auto& [comm, operation, pair] : s.group) {
    launch(comm, std::move(operation));
    comm->polls_in_progress = kPollsInProgress;
    pairs.insert({comm, pair});
  }
  for (const auto& [comm, pair] : pairs) ++comm->pair_groups[pair];
}

/// What an identifier holds.
struct Id {
  int root = 0;
  int number = 0;
};

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (fails()) return ncclSystemError;
  Id mine;
  MPI_Comm_rank(MPI_COMM_WORLD, &mine.root);
  mine.number = ++state().ids;
  std::memcpy(id->internal, &mine, sizeof(mine));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *comm = nullptr;
  if (state().depth > 0) return misused("ncclCommInitRankConfig in a group");
  const ncclConfig_t standard = NCCL_CONFIG_INITIALIZER;
  if (config->magic != standard.magic || config->blocking != 0) {
    return misused("ncclCommInitRankConfig: a configuration without initializer, or blocking");
  }
  if (nranks < 1 || rank < 0 || rank >= nranks) {
    return misused("ncclCommInitRankConfig: rank ", rank, " of ", nranks);
  }
  if (fails()) return ncclSystemError;
  Id given;
  std::memcpy(&given, id.internal, sizeof(given));
  auto made = std::make_unique<ncclComm>();
  made->rank = rank;
  made->ranks = nranks;
  made->tag = 1000 + (given.root * 4096 + given.number % 4096) * 4;
  *comm = made.get();
  state().comms.push_back(std::move(made));
  const auto init = make_init(*comm, given.root);
  init->launch();
  (*comm)->operations.push_back(init);
  return ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (!is_usable(comm, "ncclCommFinalize")) return ncclInvalidUsage;
  if (comm->finalized) return misused("ncclCommFinalize: called twice");
  if (fails()) return ncclSystemError;
  comm->finalized = true;
  comm->polls_in_progress = kPollsInProgress;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!is_usable(comm, "ncclCommDestroy")) return ncclInvalidUsage;
  if (!comm->finalized || !comm->operations.empty()) {
    misused("ncclCommDestroy: the communicator is not finalized");
  }
  comm->alive = false;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (state().depth > 0) return misused("ncclCommAbort in a group");
  if (!comm->alive) return misused("ncclCommAbort: the communicator is no longer there");
  comm->alive = false;  // so its operations never touch memory of the caller again
  for (auto& operation : comm->operations) operation->done = true;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  if (!comm->alive) return misused("ncclCommGetAsyncError: the communicator is no longer there");
  if (std::exchange(state().background_error, false)) comm->error = ncclRemoteError;
  progress();
  *result = comm->error;
  if (comm->error != ncclSuccess) return ncclSuccess;
  const bool flushing = comm->finalized && !comm->operations.empty();
  if (comm->polls_in_progress > 0 && comm->ready && !flushing) --comm->polls_in_progress;
  if (comm->polls_in_progress > 0) *result = ncclInProgress;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSystemError:
      return "system error of the double";
    case ncclRemoteError:
      return "remote error of the double";
    default:
      return "error of the double";
  }
}

const char* ncclGetLastError(ncclComm_t) { return "made for a test"; }

ncclResult_t ncclGroupStart() {
  if (fails()) return ncclSystemError;
  ++state().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  State& s = state();
  if (s.depth == 0) return misused("ncclGroupEnd without ncclGroupStart");
  if (--s.depth > 0) return ncclSuccess;
  const bool failed = std::exchange(s.group_failed, false) || fails();
  ncclResult_t result = failed ? ncclSystemError : ncclSuccess;
  const int operations = static_cast<int>(s.group.size());
  if (operations > kGroupLimit) result = misused("a group of ", operations, " operations");
  if (result == ncclSuccess && operations > 0) {
    s.largest_group = std::max(s.largest_group, operations);
    ++s.groups;
    launch_group();
    result = ncclInProgress;
  }
  s.group.clear();
  return result;
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t) {
  return add_message(comm, "ncclSend", peer, type, make_send(comm, data, count, peer), true);
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t) {
  return add_message(comm, "ncclRecv", peer, type, make_receive(comm, data, count, peer), false);
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t) {
  if (operation != ncclSum) return misused("ncclAllReduce: the double only adds");
  auto reduce = make_all_reduce(comm, from, to, count, type);
  if (!reduce) return misused("ncclAllReduce: a type that the double does not know");
  return add(comm, "ncclAllReduce", std::move(reduce));
}
