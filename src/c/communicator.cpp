// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <limits>

#include "c/handles.hpp"

namespace knapformer::c {
namespace {

constexpr const char* kCreateCommunicator = "knapformer_communicator_create";

CommunicatorOptions options_of(const knapformer_communicator_options* given) {
  if (!given) return {};
  require_initialised(*given, kCreateCommunicator, "knapformer_communicator_options_init");
  if (given->transport < KNAPFORMER_TRANSPORT_AUTO ||
      given->transport > KNAPFORMER_TRANSPORT_NCCL) {
    throw Error(std::string(kCreateCommunicator) + ": there is no transport " +
                std::to_string(given->transport) + "; give one of KNAPFORMER_TRANSPORT_...");
  }
  if (given->nccl_peers > std::numeric_limits<int>::max()) {
    throw Error(std::string(kCreateCommunicator) + ": nccl_peers is " +
                std::to_string(given->nccl_peers) + "; give at most 2147483647");
  }
  CommunicatorOptions options;
  options.transport = static_cast<TransportKind>(given->transport);
  options.report_seconds = given->report_seconds;
  options.timeout_seconds = given->timeout_seconds;
  options.message_bytes = given->message_bytes;
  options.direct = given->direct != 0;
  options.nccl_peers = static_cast<int>(std::max<std::int64_t>(-1, given->nccl_peers));
  if (given->log) {
    options.log = [log = given->log, context = given->log_context](std::string_view text) {
      log(context, std::string(text).c_str());
    };
  }
  return options;
}

/// Collective: ranks whose arguments are wrong take part, so that all hear of it.
int create(MPI_Comm comm, const knapformer_communicator_options* given,
           knapformer_communicator** communicator) noexcept {
  return local([&] {
    if (communicator) *communicator = nullptr;
    if (!Kokkos::is_initialized()) {
      throw Error(std::string(kCreateCommunicator) +
                  ": Kokkos is not initialised; call knapformer_initialize");
    }
    CommunicatorOptions options;
    const std::string complaint = complaint_of([&] {
      require(communicator, kCreateCommunicator, "communicator");
      options = options_of(given);
    });
    const Communicator group(comm, std::move(options));
    group.agree(complaint);
    *communicator = new knapformer_communicator{group};
  });
}

const Communicator* group_of(const knapformer_communicator* communicator) {
  return communicator ? &communicator->group : nullptr;
}

}  // namespace
}  // namespace knapformer::c

using namespace knapformer::c;

void knapformer_communicator_options_init(knapformer_communicator_options* options) {
  if (!options) return;
  const knapformer::CommunicatorOptions defaults;
  *options = {.struct_size = sizeof(knapformer_communicator_options),
              .transport = KNAPFORMER_TRANSPORT_AUTO,
              .report_seconds = defaults.report_seconds,
              .timeout_seconds = defaults.timeout_seconds,
              .log = nullptr,
              .log_context = nullptr,
              .message_bytes = defaults.message_bytes,
              .direct = defaults.direct,
              .nccl_peers = defaults.nccl_peers};
}

int knapformer_communicator_create(MPI_Comm comm, const knapformer_communicator_options* options,
                                   knapformer_communicator** communicator) {
  return create(comm, options, communicator);
}

int knapformer_communicator_create_f(MPI_Fint comm, const knapformer_communicator_options* options,
                                     knapformer_communicator** communicator) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  return create(initialized ? MPI_Comm_f2c(comm) : MPI_COMM_NULL, options, communicator);
}

int knapformer_communicator_split(const knapformer_communicator* communicator, int group_size,
                                  knapformer_communicator** group) {
  return collective(group_of(communicator), "knapformer_communicator_split", "communicator", [&] {
    require(group, "knapformer_communicator_split", "group");
    *group = nullptr;
    *group = new knapformer_communicator{communicator->group.split(group_size)};
  });
}

void knapformer_communicator_destroy(knapformer_communicator** communicator) {
  if (communicator) delete std::exchange(*communicator, nullptr);
}

int knapformer_communicator_rank(const knapformer_communicator* communicator) {
  return communicator ? communicator->group.rank() : -1;
}

int knapformer_communicator_size(const knapformer_communicator* communicator) {
  return communicator ? communicator->group.size() : -1;
}

int knapformer_communicator_barrier(const knapformer_communicator* communicator) {
  return collective(group_of(communicator), "knapformer_communicator_barrier", "communicator",
                    [&] { communicator->group.barrier(); });
}

int knapformer_communicator_fail(const knapformer_communicator* communicator, const char* reason) {
  return collective(group_of(communicator), "knapformer_communicator_fail", "communicator", [&] {
    communicator->group.fail(reason ? reason : "the program gave no reason");
  });
}

int knapformer_communicator_get_times(const knapformer_communicator* communicator,
                                      knapformer_times* times) {
  return local([&] {
    require(communicator, "knapformer_communicator_get_times", "communicator");
    require(times, "knapformer_communicator_get_times", "times");
    const knapformer::CommunicatorTimes spent = communicator->group.times();
    *times = {spent.waited.elapsed, spent.waited.cpu, spent.hidden.elapsed, spent.hidden.cpu};
  });
}
