// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/transport_choice.hpp"

#include <fmt/format.h>

#include <functional>
#include <knapformer/comm/shared_error.hpp>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "comm/mpi_check.hpp"
#include "comm/nccl.hpp"

namespace knapformer {
namespace {

const char* name_of(TransportKind kind) {
  switch (kind) {
    case TransportKind::kAuto:
      return "kAuto";
    case TransportKind::kMpi:
      return "kMpi";
    case TransportKind::kNccl:
      return "kNccl";
  }
  return "unknown";
}

/// Why NCCL cannot carry the bytes of these ranks; empty when it can.
std::string obstacle_to_nccl(std::span<const TransportOffer> offers) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> owners;
  for (std::size_t r = 0; r < offers.size(); ++r) {
    const TransportOffer& offer = offers[r];
    if (!offer.nccl_built_in) {
      return fmt::format("it is not built in on rank {}; build with KNAPFORMER_ENABLE_NCCL=ON", r);
    }
    if (!offer.has_device) {
      return fmt::format("the device memory of rank {} is not CUDA's; use a Kokkos with CUDA", r);
    }
    const auto [owner, is_new] = owners.try_emplace({offer.host, offer.device}, r);
    if (!is_new) {
      return fmt::format("ranks {} and {} share a GPU; start one rank for each GPU", owner->second,
                         r);
    }
  }
  return {};
}

}  // namespace

TransportOffer transport_offer(TransportKind wanted) {
  char host[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  check_mpi(MPI_Get_processor_name(host, &length), "MPI_Get_processor_name");
  const auto device = nccl_device();
  const std::string_view name(host, static_cast<std::size_t>(length));
  return {wanted, nccl_built_in(), device.has_value(), std::hash<std::string_view>{}(name),
          device.value_or(0)};
}

TransportKind choose_transport(std::span<const TransportOffer> offers) {
  const TransportKind wanted = offers[0].wanted;
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (offers[r].wanted == wanted) continue;
    throw SharedError(fmt::format("communicator: the transport is {} on rank {} and {} on rank 0",
                                  name_of(offers[r].wanted), r, name_of(wanted)));
  }
  if (wanted == TransportKind::kMpi) return TransportKind::kMpi;
  if (wanted == TransportKind::kAuto && offers.size() == 1) return TransportKind::kMpi;
  const std::string obstacle = obstacle_to_nccl(offers);
  if (obstacle.empty()) return TransportKind::kNccl;
  if (wanted == TransportKind::kAuto) return TransportKind::kMpi;
  throw SharedError(fmt::format("communicator: NCCL is asked for, but {}", obstacle));
}

}  // namespace knapformer
