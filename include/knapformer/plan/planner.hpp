// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/plan/plan.hpp>
#include <knapformer/plan/topology.hpp>
#include <span>

namespace knapformer {

/// What to plan. The spans are read during the call only.
struct PlanRequest {
  const Topology& topology;
  const CostModel& cost;
  std::int64_t heads = 1;
  /// All sequences of the group, ordered by home rank: lengths[offsets[r]] ... of rank r; offsets
  /// has one entry more than there are ranks.
  std::span<const std::int64_t> lengths;
  std::span<const std::int64_t> offsets;
  /// Empty, or the work of every sequence, which then replaces the cost model. Not negative.
  std::span<const std::int64_t> costs = {};
};

/// Assigns every sequence to a bag of the topology, by the better of two greedy rules that take the
/// sequences from the most work to the least: to the bag whose load per rank is least after adding
/// it, or to the least occupied of the bags large enough to hold it below the mean load (arXiv
/// 2508.06001, algorithm 1). A bag gives as many of its ranks as the sequence has tokens and the
/// model heads, at most all; shares are equal, and what is left over goes to the least loaded
/// ranks. Deterministic: decisions are exact integers; ties go home where that costs nothing, else
/// to the lower index. Throws Error for a negative or absurd length, cost or head count (1 to
/// Plan::kMaxHeads), for more work in all than exact sums can hold, and when offsets and topology
/// disagree on the number of ranks.
Plan make_plan(const PlanRequest& request);

/// Everything stays where it is: one chunk a sequence, on its home. The report's bound is the
/// topology's.
Plan make_home_plan(const PlanRequest& request);

}  // namespace knapformer
