// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "nccl_double.hpp"

#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <knapformer/comm/mpi.hpp>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

namespace {

using Bytes = std::vector<std::byte>;

constexpr int kGroupLimit = 2048;
constexpr int kPollsInProgress = 2;  // before a call is done, however fast it was

/// A peer, and whether it is sent to or received from.
using Pair = std::pair<int, bool>;
constexpr Pair kNoPair{-1, false};

/// Something that was launched.
struct Operation {
  virtual ~Operation() = default;
  virtual void launch() = 0;
  virtual bool advance() = 0;  ///< whether it is done
  bool done = false;
};

}  // namespace

struct ncclComm {
  int rank = 0;
  int ranks = 0;
  int tag = 0;  // and the next three
  bool alive = true;
  bool ready = false;
  bool finalized = false;
  int polls_in_progress = kPollsInProgress;
  ncclResult_t error = ncclSuccess;
  std::vector<int> world;                    // rank in MPI_COMM_WORLD of each rank
  std::map<Pair, std::int64_t> pair_groups;  // with messages of a pair, so far
  std::set<int> connected;
  std::vector<std::shared_ptr<Operation>> operations;  // under way
};

namespace {

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

State& state() {
  static auto* the_state = new State;  // MPI may hold its memory to the end
  return *the_state;
}

template <class... Parts>
ncclResult_t misused(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  state().misuse.push_back(text.str());
  return ncclInvalidUsage;
}

bool fails() { return ++state().calls == state().failing_call; }

/// Whether a communicator may be called.
bool is_usable(ncclComm* comm, const char* function) {
  const auto& comms = state().comms;
  const bool known =
      std::any_of(comms.begin(), comms.end(), [&](auto& c) { return c.get() == comm; });
  if (!known || !comm->alive) {
    misused(function, ": the communicator is not or no longer there");
    return false;
  }
  if (!comm->ready || comm->polls_in_progress > 0) {
    misused(function, ": the call before it is still in progress");
    return false;
  }
  return true;
}

bool is_complete(MPI_Request& request, MPI_Status* status = MPI_STATUS_IGNORE) {
  int done = 0;
  MPI_Test(&request, &done, status);
  return done != 0;
}

/// Goes before the bytes of a message.
struct Header {
  std::int64_t bytes = 0;
  std::int64_t group = 0;  // number among those with messages from this sender to this receiver
};

class Send : public Operation {
 public:
  Send(ncclComm* comm, const void* data, std::size_t bytes, int peer)
      : comm_(comm), data_(data), bytes_(bytes), peer_(peer) {}

  void launch() override {
    const Header header{static_cast<std::int64_t>(bytes_), comm_->pair_groups[{peer_, true}]};
    message_.resize(sizeof(header) + bytes_);
    std::memcpy(message_.data(), &header, sizeof(header));
    if (bytes_ > 0) std::memcpy(message_.data() + sizeof(header), data_, bytes_);
    MPI_Isend(message_.data(), static_cast<int>(message_.size()), MPI_BYTE,
              comm_->world[static_cast<std::size_t>(peer_)], comm_->tag, MPI_COMM_WORLD, &request_);
  }
  bool advance() override { return is_complete(request_); }

 private:
  ncclComm* comm_;
  const void* data_;
  std::size_t bytes_;
  int peer_;
  Bytes message_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class Receive : public Operation {
 public:
  Receive(ncclComm* comm, void* data, std::size_t bytes, int peer)
      : comm_(comm), data_(data), bytes_(bytes), peer_(peer) {}

  // With room for more than is expected, to find out that more was sent.
  void launch() override {
    group_ = comm_->pair_groups[{peer_, false}];
    message_.resize(sizeof(Header) + bytes_ + 4096);
    MPI_Irecv(message_.data(), static_cast<int>(message_.size()), MPI_BYTE,
              comm_->world[static_cast<std::size_t>(peer_)], comm_->tag, MPI_COMM_WORLD, &request_);
  }
  bool advance() override {
    if (!is_complete(request_)) return false;
    deliver();
    return true;
  }

 private:
  void deliver() {
    Header header;
    std::memcpy(&header, message_.data(), sizeof(header));
    if (header.bytes != static_cast<std::int64_t>(bytes_) || header.group != group_) {
      misused("rank ", peer_, " sent ", header.bytes, " bytes in group ", header.group, ", rank ",
              comm_->rank, " expected ", bytes_, " in group ", group_);
      comm_->error = ncclInternalError;
      return;
    }
    if (bytes_ > 0) std::memcpy(data_, message_.data() + sizeof(header), bytes_);
  }

  ncclComm* comm_;
  void* data_;
  std::size_t bytes_;
  int peer_;
  std::int64_t group_ = 0;
  Bytes message_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// Rank 0 adds, in the order of ranks, and sends the sum to all.
template <class T>
class AllReduce : public Operation {
 public:
  AllReduce(ncclComm* comm, const T* from, T* to, std::size_t count)
      : comm_(comm), from_(from), to_(to), count_(count) {}

  void launch() override {
    const int bytes = static_cast<int>(count_ * sizeof(T));
    parts_.assign(static_cast<std::size_t>(comm_->ranks), std::vector<T>(count_ + 1));
    requests_.assign(parts_.size(), MPI_REQUEST_NULL);
    parts_[static_cast<std::size_t>(comm_->rank)].assign(from_, from_ + count_);
    if (comm_->rank != 0) {
      MPI_Isend(parts_[static_cast<std::size_t>(comm_->rank)].data(), bytes, MPI_BYTE,
                comm_->world[0], comm_->tag + 1, MPI_COMM_WORLD, &sent_);
      receive(0);
    } else {
      for (std::size_t r = 1; r < parts_.size(); ++r) receive(r);
    }
  }

  bool advance() override {
    for (std::size_t r = 0; r < requests_.size(); ++r) {
      MPI_Status status;
      if (requests_[r] == MPI_REQUEST_NULL) continue;
      if (!is_complete(requests_[r], &status)) return false;
      if (!summed_) check(r, status);
    }
    if (comm_->rank == 0 && !summed_) {
      send_sum();
      return false;
    }
    if (!is_complete(sent_)) return false;
    std::copy_n(parts_[0].begin(), count_, to_);
    return true;
  }

 private:
  void receive(std::size_t r) {
    MPI_Irecv(parts_[r].data(), static_cast<int>((count_ + 1) * sizeof(T)), MPI_BYTE,
              comm_->world[r], comm_->tag + 1, MPI_COMM_WORLD, &requests_[r]);
  }
  void check(std::size_t r, const MPI_Status& status) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (static_cast<std::size_t>(bytes) == count_ * sizeof(T)) return;
    misused("all-reduce of ", bytes, " bytes on rank ", r, " and ", count_ * sizeof(T), " on rank ",
            comm_->rank);
    comm_->error = ncclInternalError;
  }
  void send_sum() {
    summed_ = true;
    for (std::size_t r = 1; r < parts_.size(); ++r) {
      for (std::size_t i = 0; i < count_; ++i) parts_[0][i] += parts_[r][i];
    }
    for (std::size_t r = 1; r < parts_.size(); ++r) {
      MPI_Isend(parts_[0].data(), static_cast<int>(count_ * sizeof(T)), MPI_BYTE, comm_->world[r],
                comm_->tag + 1, MPI_COMM_WORLD, &requests_[r]);
    }
  }

  ncclComm* comm_;
  const T* from_;
  T* to_;
  std::size_t count_;
  std::vector<std::vector<T>> parts_;
  std::vector<MPI_Request> requests_;
  MPI_Request sent_ = MPI_REQUEST_NULL;
  bool summed_ = false;
};

/// The rank that made the identifier learns who is there and tells all.
class Init : public Operation {
 public:
  Init(ncclComm* comm, int root) : comm_(comm), root_(root) {}

  void launch() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &mine_.world);
    mine_.rank = comm_->rank;
    mine_.ranks = comm_->ranks;
    const auto ranks = static_cast<std::size_t>(comm_->ranks);
    table_.resize(ranks);
    MPI_Irecv(table_.data(), count(ranks), MPI_BYTE, root_, comm_->tag + 3, MPI_COMM_WORLD,
              &answered_);
    MPI_Isend(&mine_, count(1), MPI_BYTE, root_, comm_->tag + 2, MPI_COMM_WORLD, &sent_);
    if (mine_.world != root_) return;
    joined_.resize(ranks);
    requests_.assign(ranks, MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < ranks; ++i) {
      MPI_Irecv(&joined_[i], count(1), MPI_BYTE, MPI_ANY_SOURCE, comm_->tag + 2, MPI_COMM_WORLD,
                &requests_[i]);
    }
  }

  bool advance() override {
    if (mine_.world == root_ && !told_) {
      for (MPI_Request& request : requests_) {
        if (!is_complete(request)) return false;
      }
      tell();
    }
    if (!is_complete(answered_) || !is_complete(sent_)) return false;
    for (MPI_Request& request : requests_) {
      if (!is_complete(request)) return false;
    }
    for (std::size_t r = 0; r < table_.size(); ++r) {
      if (table_[r].rank != static_cast<int>(r) || table_[r].ranks != comm_->ranks) {
        misused("ncclCommInitRankConfig: rank ", comm_->rank, " of ", comm_->ranks, " finds rank ",
                table_[r].rank, " of ", table_[r].ranks, " in place ", r);
        comm_->error = ncclInvalidUsage;
      }
      comm_->world.push_back(table_[r].world);
    }
    comm_->ready = true;
    return true;
  }

 private:
  struct Member {
    int rank = 0;
    int ranks = 0;
    int world = 0;
  };
  static int count(std::size_t members) { return static_cast<int>(members * sizeof(Member)); }
  void tell() {
    told_ = true;
    std::sort(joined_.begin(), joined_.end(),
              [](const Member& a, const Member& b) { return a.rank < b.rank; });
    for (std::size_t i = 0; i < joined_.size(); ++i) {
      MPI_Isend(joined_.data(), count(joined_.size()), MPI_BYTE, joined_[i].world, comm_->tag + 3,
                MPI_COMM_WORLD, &requests_[i]);
    }
  }

  ncclComm* comm_;
  int root_;
  Member mine_;
  std::vector<Member> table_;
  std::vector<Member> joined_;
  std::vector<MPI_Request> requests_;
  MPI_Request answered_ = MPI_REQUEST_NULL;
  MPI_Request sent_ = MPI_REQUEST_NULL;
  bool told_ = false;
};

/// Never begins.
class Stalled : public Operation {
 public:
  void launch() override {}
  bool advance() override { return false; }
};

void progress() {
  for (const auto& comm : state().comms) {
    if (!comm->alive) continue;
    for (auto& operation : comm->operations) {
      operation->done = operation->done || operation->advance();
    }
    std::erase_if(comm->operations, [](auto& operation) { return operation->done; });
  }
}

void launch(ncclComm* comm, std::shared_ptr<Operation> operation) {
  if (state().stalled) operation = std::make_shared<Stalled>();
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
  const auto init = std::make_shared<Init>(*comm, given.root);
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
  return add_message(comm, "ncclSend", peer, type, std::make_shared<Send>(comm, data, count, peer),
                     true);
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t) {
  return add_message(comm, "ncclRecv", peer, type,
                     std::make_shared<Receive>(comm, data, count, peer), false);
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t) {
  if (operation != ncclSum) return misused("ncclAllReduce: the double only adds");
  std::shared_ptr<Operation> reduce;
  if (type == ncclFloat32) {
    reduce = std::make_shared<AllReduce<float>>(comm, static_cast<const float*>(from),
                                                static_cast<float*>(to), count);
  } else if (type == ncclFloat64) {
    reduce = std::make_shared<AllReduce<double>>(comm, static_cast<const double*>(from),
                                                 static_cast<double*>(to), count);
  } else {
    return misused("ncclAllReduce: a type that the double does not know");
  }
  return add(comm, "ncclAllReduce", std::move(reduce));
}

namespace knapformer::nccl_double {

const std::vector<std::string>& misuse() { return state().misuse; }
int calls() { return state().calls; }
int live_communicators() {
  const auto& comms = state().comms;
  return static_cast<int>(
      std::count_if(comms.begin(), comms.end(), [](auto& c) { return c->alive; }));
}
int connections() {
  int count = 0;
  for (const auto& comm : state().comms) {
    if (comm->alive) count += static_cast<int>(comm->connected.size());
  }
  return count;
}
int largest_group() { return state().largest_group; }
int groups() { return state().groups; }
void fail_call(int n) { state().failing_call = state().calls + n; }
void fail_in_background() { state().background_error = true; }
void stall() { state().stalled = true; }
void share_devices() { state().shared_devices = true; }

void reset() {
  State& s = state();
  s.misuse.clear();
  s.failing_call = 0;
  s.background_error = s.stalled = s.shared_devices = false;
  s.largest_group = s.groups = 0;
}

std::uint64_t device_number() {
  return state().shared_devices ? 0 : static_cast<std::uint64_t>(getpid());
}

IsDone everything_launched() {
  std::vector<std::shared_ptr<Operation>> launched;
  for (const auto& comm : state().comms) {
    if (!comm->alive) continue;
    launched.insert(launched.end(), comm->operations.begin(), comm->operations.end());
  }
  return [launched = std::move(launched)] {
    progress();
    return std::all_of(launched.begin(), launched.end(), [](auto& each) { return each->done; });
  };
}

}  // namespace knapformer::nccl_double
