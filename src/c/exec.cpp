// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <Kokkos_Core.hpp>
#include <mutex>
#include <type_traits>

#include "c/handles.hpp"

namespace knapformer::c {
namespace {

std::mutex mutex;
int initialisations = 0;
bool kokkos_is_ours = false;

Device on_stream([[maybe_unused]] void* stream) {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<Device, Kokkos::Cuda>) {
    return Device(static_cast<cudaStream_t>(stream));
  }
#elif defined(KOKKOS_ENABLE_HIP)
  if constexpr (std::is_same_v<Device, Kokkos::HIP>) {
    return Device(static_cast<hipStream_t>(stream));
  }
#endif
  throw Error(std::string("knapformer_exec_create: work runs on ") + Device::name() +
              " here, which has no streams; use NULL as execution space");
}

}  // namespace

bool device_reads([[maybe_unused]] const void* memory) {
#if defined(KOKKOS_ENABLE_CUDA)
  if constexpr (std::is_same_v<Device, Kokkos::Cuda>) {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) return false;
    if (attributes.type != cudaMemoryTypeUnregistered) return true;
    int device = 0;
    int pageable = 0;  // some devices read all memory of the host
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, device) ==
               cudaSuccess &&
           pageable != 0;
  }
#endif
  return true;
}

}  // namespace knapformer::c

using namespace knapformer::c;

int knapformer_initialize(void) {
  return local([] {
    const std::lock_guard lock(mutex);
    if (Kokkos::is_finalized()) {
      throw knapformer::Error(
          "knapformer_initialize: Kokkos has been finalised, and cannot be initialised again");
    }
    if (!Kokkos::is_initialized()) {
      Kokkos::initialize();
      kokkos_is_ours = true;
    }
    ++initialisations;
  });
}

int knapformer_finalize(void) {
  return local([] {
    const std::lock_guard lock(mutex);
    if (initialisations == 0) {
      throw knapformer::Error("knapformer_finalize: there is no knapformer_initialize for it");
    }
    if (initialisations == 1 && kokkos_is_ours && Kokkos::is_initialized()) {
      if (const int live = LiveHandle::count; live > 0) {
        throw knapformer::Error(
            "knapformer_finalize: handles that still exist: " + std::to_string(live) +
            "; destroy communicators, balancers, routings and the like first");
      }
      Kokkos::finalize();
      kokkos_is_ours = false;
    }
    --initialisations;
  });
}

int knapformer_exec_create(void* stream, knapformer_exec** exec) {
  return local([&] {
    require(exec, "knapformer_exec_create", "exec");
    *exec = nullptr;
    *exec = new knapformer_exec{on_stream(stream)};
  });
}

void knapformer_exec_destroy(knapformer_exec** exec) {
  if (exec) delete std::exchange(*exec, nullptr);
}

int knapformer_exec_fence(const knapformer_exec* exec) {
  return local([&] {
    if (!Kokkos::is_initialized()) {
      throw knapformer::Error("knapformer_exec_fence: call knapformer_initialize first");
    }
    (exec ? exec->exec : knapformer::Device()).fence("KnapFormer::fence for the caller");
  });
}
