// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>

namespace knapformer {

/// MPI sends ranges of up to so many bytes to the same peer as one message, from a second copy:
/// copying them twice costs no more than a message of its own. The same on all ranks.
inline constexpr std::int64_t kShortRange = 8 << 10;

}  // namespace knapformer
