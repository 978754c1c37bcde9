// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "comm/transport.hpp"

// What the rest of the library knows of NCCL. nccl_transport.cpp has it, and nccl_absent.cpp where
// NCCL is not built in.
namespace knapformer {

bool nccl_built_in();

/// A number for this rank's CUDA device, unlike those of the other devices of its host; nothing
/// when device memory is not CUDA's.
std::optional<std::uint64_t> nccl_device();

/// Collective. Belongs to `comm`, which outlives it. Failures are those of `comm`, on all ranks.
std::unique_ptr<Transport> make_nccl_transport(Communicator::Data& comm);

}  // namespace knapformer
