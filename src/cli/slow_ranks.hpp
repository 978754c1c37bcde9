// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace knapformer::cli {

/// A rank that is to compute slower than it could.
struct SlowRank {
  std::int64_t rank = 0;
  double factor = 1;
};

/// Reads a list such as 3:2,5:1.5. Throws Error for anything else, for factors that are not finite
/// or below 1, and for a rank named twice.
std::vector<SlowRank> parse_slow_ranks(std::string_view list);

/// A factor for each of `ranks`, 1 for those not named; empty when none is. Throws Error when there
/// is no such rank.
std::vector<double> slowdowns(const std::vector<SlowRank>& slow, std::int64_t ranks);

}  // namespace knapformer::cli
