// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/plan/plan.hpp>
#include <vector>

namespace knapformer {

/// Chunks for every sequence.
struct Assignment {
  std::vector<std::int64_t> chunk_offsets;
  std::vector<Chunk> chunks;
};

}  // namespace knapformer
