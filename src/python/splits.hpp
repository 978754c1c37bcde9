// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/plan/plan.hpp>
#include <vector>

namespace knapformer {

/// What one rank sends and receives when tokens are routed with an all-to-all, its own included, in
/// the order of a Routing's routed rows: what arrives needs no sorting.
struct Splits {
  std::vector<std::int64_t> rows;            ///< home rows in the order in which they are sent
  std::vector<std::int64_t> send_counts;     ///< rows for each destination
  std::vector<std::int64_t> receive_counts;  ///< rows from each source
};

/// Throws Error unless rank is in [0, plan.ranks()).
Splits splits_of(const Plan& plan, std::int64_t rank);

}  // namespace knapformer
