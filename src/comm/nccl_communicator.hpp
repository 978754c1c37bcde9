// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <nccl.h>

#include <functional>
#include <knapformer/comm/communicator.hpp>
#include <string>

namespace knapformer {

/// An ncclComm_t that never blocks: whatever NCCL does in the background is waited for with the
/// time-outs of `comm`, and every error is a failure of `comm`, which tells the other ranks.
class NcclCommunicator {
 public:
  /// Collective over the ranks of `comm`, which outlives this.
  explicit NcclCommunicator(Communicator::Data& comm);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator();

  /// Runs the NCCL calls in `calls` as one group and returns when it is in its stream. `what` names
  /// it for people, should it take long.
  void group(const std::function<void()>& calls, const std::function<std::string()>& what);

  // In a group.
  void send(const SendRange& range, cudaStream_t stream);
  void receive(const ReceiveRange& range, cudaStream_t stream);
  void all_reduce_sum(void* data, std::size_t count, ncclDataType_t type, cudaStream_t stream);

  /// Fails when NCCL has met an error in the background.
  void check_background();

  /// Stops what is under way; nothing else may be called afterwards. To be called on all ranks,
  /// which a failure of `comm` sees to.
  void abort();

 private:
  void check(ncclResult_t result, const char* function);
  bool is_ready();
  void wait_until_ready(const std::function<std::string()>& what);
  bool finalize();

  Communicator::Data& comm_;
  ncclComm_t nccl_ = nullptr;
};

/// Whether a stream has come to its end, soon after an abort: memory of NCCL operations in it must
/// stay otherwise.
bool has_settled(cudaStream_t stream);

}  // namespace knapformer
