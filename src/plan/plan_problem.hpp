// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <algorithm>
#include <cstdint>
#include <knapformer/plan/planner.hpp>
#include <span>
#include <vector>

#include "plan/group_work.hpp"

namespace knapformer {

/// What is to be planned, checked.
struct PlanProblem {
  const Topology& topology;
  std::int64_t ranks;
  const Machine& machine;
  const GroupWork& work;
  std::int64_t heads;
  std::span<const std::int64_t> homes;
  std::span<const std::int64_t> lengths;
  std::int64_t max_tokens = PlanRequest::kNoCap;  ///< of a rank
  std::int64_t max_attention_tokens = PlanRequest::kNoCap;
  std::int64_t budget = 0;  ///< changes to try
  /// See WorkOrder; empty for elastic bags, which rarely need it all.
  std::vector<std::int64_t> order = {};

  /// How many ranks of a bag can compute sequence i: each needs a token and a head.
  std::int64_t shares(std::int64_t i, std::int64_t degree) const {
    return std::min({degree, lengths[i], heads});
  }
};

}  // namespace knapformer
