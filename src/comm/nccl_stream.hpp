// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <knapformer/plan/error.hpp>
#include <string>

// All that the NCCL transport asks of CUDA. The test double of NCCL has a header of this name for
// the host.
namespace knapformer {

inline void check_cuda(cudaError_t code, const char* function) {
  if (code == cudaSuccess) return;
  throw Error(fmt::format("{} failed: {}", function, cudaGetErrorString(code)));
}

inline cudaStream_t stream_of(const Kokkos::DefaultExecutionSpace& exec) {
  return exec.cuda_stream();
}

/// Makes the device of Kokkos current in this thread, for what NCCL binds to it.
inline void use_device() {
  check_cuda(cudaSetDevice(Kokkos::DefaultExecutionSpace().cuda_device()), "cudaSetDevice");
}

/// Where the device is plugged in.
inline std::uint64_t device_number() {
  const int device = Kokkos::DefaultExecutionSpace().cuda_device();
  std::uint64_t number = 0;
  for (const auto attribute :
       {cudaDevAttrPciDomainId, cudaDevAttrPciBusId, cudaDevAttrPciDeviceId}) {
    int value = 0;
    check_cuda(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
    number = number << 16 | static_cast<std::uint64_t>(value);
  }
  return number;
}

/// A point in a stream.
class StreamMark {
 public:
  StreamMark() {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
               "cudaEventCreateWithFlags");
  }
  StreamMark(const StreamMark&) = delete;
  StreamMark& operator=(const StreamMark&) = delete;
  ~StreamMark() { cudaEventDestroy(event_); }

  void record(cudaStream_t stream) {
    check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  }

  /// Whether the device has got there. Throws Error when it failed.
  bool reached() const {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    check_cuda(state, "cudaEventQuery");
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace knapformer
