// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "state.hpp"

#include <unistd.h>

#include <algorithm>

#include "nccl_double.hpp"

namespace knapformer::nccl_double {

State& state() {
  static auto* the_state = new State;  // MPI may hold its memory to the end
  return *the_state;
}

bool fails() { return ++state().calls == state().failing_call; }

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

void progress() {
  for (const auto& comm : state().comms) {
    if (!comm->alive) continue;
    for (auto& operation : comm->operations) {
      operation->done = operation->done || operation->advance();
    }
    std::erase_if(comm->operations, [](auto& operation) { return operation->done; });
  }
}

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
