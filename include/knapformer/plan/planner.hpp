// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/plan/machine.hpp>
#include <knapformer/plan/plan.hpp>
#include <knapformer/plan/topology.hpp>
#include <limits>
#include <span>

namespace knapformer {

/// What to plan. The spans are read during the call only.
struct PlanRequest {
  const Topology& topology;  ///< which bags exist
  const CostModel& cost;     ///< of a sequence, without `costs`
  std::int64_t heads = 1;    ///< attention heads of the model; no bag splits a sequence further
  /// All sequences of the group, ordered by home rank: lengths[offsets[r]] ... of rank r; offsets
  /// has one entry more than there are ranks.
  std::span<const std::int64_t> lengths;
  std::span<const std::int64_t> offsets;  ///< [ranks + 1], see lengths
  /// Empty, or the work of every sequence, which then replaces the cost model. Not negative. As
  /// they are in no unit that traffic could be weighed in, communication then counts as free: the
  /// plan makes the largest load small.
  std::span<const std::int64_t> costs = {};

  Machine machine = {};  ///< what the time of the step is predicted for

  static constexpr std::int64_t kNoCap =
      std::numeric_limits<std::int64_t>::max();  ///< any number of tokens
  /// No rank gets more tokens than this, nor more attention-resident tokens (length times its share
  /// of the heads, summed over its sequences).
  std::int64_t max_tokens_per_rank = kNoCap;
  std::int64_t max_attention_tokens_per_rank = kNoCap;  ///< see max_tokens_per_rank

  /// How long to search for something better than the first plan, in changes tried (so that every
  /// rank stops at the same plan); 0 takes the first.
  static constexpr std::int64_t kDefaultBudget = -1;  ///< thousands, and a few per sequence
  std::int64_t budget = kDefaultBudget;               ///< at least 0, or the default
};

/// Assigns every sequence to a bag so that the slowest rank of the machine finishes as early as the
/// search finds it can; where bags are equally good, tokens stay where they are.
///
/// Fixed topologies: starts from the better of two greedy rules that take the sequences from the
/// most work to the least: to the bag whose load per rank is least after adding it, or to the least
/// occupied of the bags large enough to hold it below the mean load (arXiv 2508.06001, algorithm
/// 1). A bag gives as many of its ranks as the sequence has tokens and the model heads, at most
/// all; shares are equal, and what is left over goes to the least loaded ranks.
///
/// Elastic topologies: every sequence gets its own bag, the smallest that balance allows, with
/// token and head shares of any size.
///
/// Deterministic: decisions are exact integers; ties go to the lower index. Throws Error for a
/// negative or absurd length, cost or head count (1 to Plan::kMaxHeads), for more work in all than
/// exact sums can hold, when offsets and topology disagree on the number of ranks, for a machine
/// that Machine::check() refuses, for a negative cap or budget (but the default), and, with
/// the numbers, when the caps cannot be met.
Plan make_plan(const PlanRequest& request);

/// Everything stays where it is: one chunk a sequence, on its home, whatever the caps. The report's
/// bound is the topology's.
Plan make_home_plan(const PlanRequest& request);

}  // namespace knapformer
