// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "operations.hpp"

#include <algorithm>
#include <cstring>
#include <knapformer/comm/mpi.hpp>

namespace knapformer::nccl_double {
namespace {

using Bytes = std::vector<std::byte>;

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

}  // namespace

std::shared_ptr<Operation> make_send(ncclComm* comm, const void* data, std::size_t bytes,
                                     int peer) {
  return std::make_shared<Send>(comm, data, bytes, peer);
}

std::shared_ptr<Operation> make_receive(ncclComm* comm, void* data, std::size_t bytes, int peer) {
  return std::make_shared<Receive>(comm, data, bytes, peer);
}

std::shared_ptr<Operation> make_all_reduce(ncclComm* comm, const void* from, void* to,
                                           std::size_t count, ncclDataType_t type) {
  const auto make = [&]<class T>(T* sum) {
    return std::make_shared<AllReduce<T>>(comm, static_cast<const T*>(from), sum, count);
  };
  if (type == ncclFloat32) return make(static_cast<float*>(to));
  if (type == ncclFloat64) return make(static_cast<double*>(to));
  return nullptr;
}

std::shared_ptr<Operation> make_init(ncclComm* comm, int root) {
  return std::make_shared<Init>(comm, root);
}

std::shared_ptr<Operation> make_stalled() { return std::make_shared<Stalled>(); }

}  // namespace knapformer::nccl_double
