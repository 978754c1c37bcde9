// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/nccl.hpp"

namespace knapformer {

bool nccl_built_in() { return false; }
std::optional<std::uint64_t> nccl_device() { return {}; }
std::unique_ptr<Transport> make_nccl_transport(Communicator::Data&) {
  throw Error("communicator: NCCL is not built in");
}

}  // namespace knapformer
