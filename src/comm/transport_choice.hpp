// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/comm/communicator.hpp>
#include <span>

namespace knapformer {

/// What one rank brings to the choice of a transport.
struct TransportOffer {
  TransportKind wanted = TransportKind::kAuto;
  bool nccl_built_in = false;
  bool has_device = false;  ///< a CUDA device, which has the number `device` on the host `host`
  std::uint64_t host = 0;
  std::uint64_t device = 0;
};

TransportOffer transport_offer(TransportKind wanted);

/// The transport that ranks with these offers use: kMpi or kNccl. Throws Error, on all of them
/// alike, when they want different ones or one that cannot be had.
TransportKind choose_transport(std::span<const TransportOffer> offers);

}  // namespace knapformer
