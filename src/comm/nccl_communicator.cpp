// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/nccl_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "comm/communicator_data.hpp"
#include "comm/mpi_check.hpp"
#include "comm/nccl_stream.hpp"

namespace knapformer {
namespace {

/// Whatever rank 0 has, on all ranks.
void broadcast(Communicator::Data& comm, ncclUniqueId& id) {
  const auto bytes = std::make_shared<ncclUniqueId>(id);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibcast(bytes.get(), sizeof(id), MPI_BYTE, 0, comm.comm, &request), "MPI_Ibcast");
  comm.wait(request, "the broadcast of NCCL's identifier", bytes);
  id = *bytes;
}

/// Whether `is_done` became true in time. For where failures of the communicator play no role.
bool poll_for(double seconds, const std::function<bool()>& is_done) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  while (!is_done()) {
    if (std::chrono::duration<double>(Clock::now() - start).count() > seconds) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

bool has_settled(cudaStream_t stream) {
  try {
    StreamMark mark;
    mark.record(stream);
    return poll_for(2, [&] { return mark.reached(); });
  } catch (const Error&) {  // of the device
    return false;
  }
}

NcclCommunicator::NcclCommunicator(Communicator::Data& comm) : comm_(comm) {
  ncclUniqueId id{};
  if (comm_.rank == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  broadcast(comm_, id);
  use_device();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // "required" to abort safely, says NCCL's user guide under Fault Tolerance
  try {
    check(ncclCommInitRankConfig(&nccl_, comm_.size, id, comm_.rank, &config),
          "ncclCommInitRankConfig");
    wait_until_ready([] { return std::string("the set-up of NCCL"); });
  } catch (...) {
    abort();
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  if (!nccl_) return;
  if (!comm_.control->failed() && !comm_.control->thrown_out() && finalize()) {
    ncclCommDestroy(nccl_);
  } else {
    abort();
  }
}

/// Completes everything together with the other ranks, as ncclCommDestroy wants it. False when that
/// failed.
bool NcclCommunicator::finalize() {
  const ncclResult_t code = ncclCommFinalize(nccl_);
  if (code != ncclSuccess && code != ncclInProgress) return false;
  ncclResult_t state = ncclInProgress;
  return poll_for(comm_.options.timeout_seconds,
                  [&] {
                    return ncclCommGetAsyncError(nccl_, &state) != ncclSuccess ||
                           state != ncclInProgress;
                  }) &&
         state == ncclSuccess;
}

void NcclCommunicator::abort() {
  if (nccl_) ncclCommAbort(std::exchange(nccl_, nullptr));
}

// Fails here, not by an exception, so that the other ranks know before this one aborts.
void NcclCommunicator::check(ncclResult_t result, const char* function) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* more = ncclGetLastError(nccl_);
  comm_.fail(fmt::format("rank {}: {}: {}{}{}", comm_.control->rank(), function,
                         ncclGetErrorString(result), more && *more ? "; " : "", more ? more : ""));
}

bool NcclCommunicator::is_ready() {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(nccl_, &state), "ncclCommGetAsyncError");
  check(state, "NCCL's background work");
  return state == ncclSuccess;
}

void NcclCommunicator::check_background() { is_ready(); }

void NcclCommunicator::wait_until_ready(const std::function<std::string()>& what) {
  comm_.wait({[this] { return is_ready() ? Progress::kDone : Progress::kNone; }, what});
}

void NcclCommunicator::group(const std::function<void()>& calls,
                             const std::function<std::string()>& what) {
  check(ncclGroupStart(), "ncclGroupStart");
  try {
    calls();
  } catch (...) {
    ncclGroupEnd();  // nothing of it will be waited for
    throw;
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
  wait_until_ready(what);
}

void NcclCommunicator::send(const SendRange& range, cudaStream_t stream) {
  check(ncclSend(range.data, static_cast<std::size_t>(range.bytes), ncclInt8, range.peer, nccl_,
                 stream),
        "ncclSend");
}

void NcclCommunicator::receive(const ReceiveRange& range, cudaStream_t stream) {
  check(ncclRecv(range.data, static_cast<std::size_t>(range.bytes), ncclInt8, range.peer, nccl_,
                 stream),
        "ncclRecv");
}

void NcclCommunicator::all_reduce_sum(void* data, std::size_t count, ncclDataType_t type,
                                      cudaStream_t stream) {
  check(ncclAllReduce(data, data, count, type, ncclSum, nccl_, stream), "ncclAllReduce");
}

}  // namespace knapformer
