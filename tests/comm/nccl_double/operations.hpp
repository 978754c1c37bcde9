// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstddef>
#include <memory>

#include "state.hpp"

namespace knapformer::nccl_double {

std::shared_ptr<Operation> make_send(ncclComm* comm, const void* data, std::size_t bytes, int peer);
std::shared_ptr<Operation> make_receive(ncclComm* comm, void* data, std::size_t bytes, int peer);

/// Null for a type that the double does not know.
std::shared_ptr<Operation> make_all_reduce(ncclComm* comm, const void* from, void* to,
                                           std::size_t count, ncclDataType_t type);

/// Brings the ranks of a communicator together. `root` is the rank in MPI_COMM_WORLD that made the
/// identifier.
std::shared_ptr<Operation> make_init(ncclComm* comm, int root);

/// Never done.
std::shared_ptr<Operation> make_stalled();

}  // namespace knapformer::nccl_double
