// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/knapformer.h>

#include <atomic>
#include <knapformer/comm/shared_error.hpp>
#include <knapformer/route/balancer.hpp>
#include <utility>

#include "c/plan.hpp"
#include "c/status.hpp"

namespace knapformer::c {

/// A member of every handle that must be gone before Kokkos is.
struct LiveHandle {
  LiveHandle() { ++count; }
  LiveHandle(const LiveHandle&) = delete;
  LiveHandle& operator=(const LiveHandle&) = delete;
  ~LiveHandle() { --count; }
  static inline std::atomic<int> count = 0;
};

/// Runs the collective function `name` on `group`, which is that of its argument `handle`; null
/// when that is NULL. No exception leaves it, and all ranks learn of each.
template <class Function>
int collective(const Communicator* group, const char* name, const char* handle,
               Function&& function) noexcept {
  try {
    require(group, name, handle);
    try {
      std::forward<Function>(function)();
    } catch (const SharedError&) {
      throw;
    } catch (...) {
      group->guard([] { throw; });
    }
    return KNAPFORMER_SUCCESS;
  } catch (const Error& error) {
    return report(!group || group->usable() ? KNAPFORMER_INVALID : KNAPFORMER_FAILED, error.what());
  } catch (...) {
    return report_exception();
  }
}

/// The message of the Error that `function` throws; empty when it throws none.
template <class Function>
std::string complaint_of(Function&& function) {
  try {
    std::forward<Function>(function)();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

/// Whether kernels and MPI may be given it.
bool device_reads(const void* memory);

}  // namespace knapformer::c

struct knapformer_exec {
  knapformer::Device exec;
  knapformer::c::LiveHandle live = {};
};

struct knapformer_communicator {
  knapformer::Communicator group;
  knapformer::c::LiveHandle live = {};
};

struct knapformer_balancer {
  knapformer::Balancer balancer;
  knapformer::c::LiveHandle live = {};
};

struct knapformer_routing {
  explicit knapformer_routing(knapformer::Routing given)
      : routing(std::move(given)), plan{routing.plan()} {}
  knapformer::Routing routing;
  knapformer_plan plan;
  knapformer::c::LiveHandle live = {};
};

struct knapformer_pending_routing {
  knapformer::Communicator group;
  knapformer::PendingRouting pending;
  knapformer::c::LiveHandle live = {};
};

struct knapformer_request {
  knapformer::Communicator group;
  knapformer::Request request;
  knapformer::c::LiveHandle live = {};
};
