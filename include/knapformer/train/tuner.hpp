// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <knapformer/plan/planner.hpp>
#include <knapformer/train/data_source.hpp>
#include <knapformer/train/placement.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace knapformer {

/// What is worth comparing for a group of `ranks`: home; elastic, and elastic with at most 2, 4 and
/// a node's ranks to a bag where that says less; every topology of equal bags of up to 16 ranks, as
/// many as a node has and the model heads.
std::vector<Placement> default_candidates(std::int64_t ranks, std::int64_t heads,
                                          const Machine& machine);

/// What tune() compares, on which machine, over how many steps.
struct TunerOptions {
  std::vector<Placement> candidates = {};         ///< to compare
  CostModel cost = CostModel::transformer(3072);  ///< of a sequence
  std::int64_t heads = 1;                         ///< attention heads of the model
  std::int64_t ranks = 1;   ///< of one balancing group, which is all that the data is dealt to
  std::int64_t steps = 50;  ///< to plan
  Machine machine = {};     ///< what times are predicted for
  std::int64_t max_tokens_per_rank =
      PlanRequest::kNoCap;  ///< as PlanRequest has it, as are the next two
  std::int64_t max_attention_tokens_per_rank =
      PlanRequest::kNoCap;                            ///< length times share of the heads
  std::int64_t budget = PlanRequest::kDefaultBudget;  ///< changes tried
};

/// The steps that every candidate planned.
struct TunerSample {
  std::int64_t steps = 0;          ///< that were planned
  std::int64_t sequences = 0;      ///< of all steps
  std::int64_t tokens = 0;         ///< of all steps
  std::int64_t longest = 0;        ///< tokens of the longest sequence
  double max_over_mean = 1;        ///< WIR with everything at home, mean over steps
  double worst_max_over_mean = 1;  ///< the same in the worst step
  double ideal_seconds = 0;        ///< mean over steps, see PlanReport
  double home_seconds = 0;         ///< predicted step with everything at home, mean over steps
};

/// How a candidate did, over the steps on which it kept the caps. "Worst" is over steps; tokens are
/// the largest of any rank in any step; shares are of the tokens of all steps.
struct TunerRow {
  Placement candidate = {};                   ///< which it is
  std::int64_t refused_steps = 0;             ///< on which the caps could not be kept
  std::string refusal = {};                   ///< the numbers of the first of them
  double step_seconds = 0;                    ///< predicted, mean
  double step_over_ideal = 1;                 ///< mean
  double worst_step_over_ideal = 1;           ///< of any step
  double max_over_mean = 1;                   ///< WIR, mean
  double worst_max_over_mean = 1;             ///< of any step
  double moved_share = 0;                     ///< computed on another rank than their home
  double crossed_share = 0;                   ///< computed on another node than their home
  double ulysses_share = 0;                   ///< 1 if q, k, v and o of every token travelled
  std::int64_t max_tokens = 0;                ///< of a rank
  double tokens_max_over_mean = 1;            ///< worst
  double max_attention_tokens = 0;            ///< of a rank
  double attention_tokens_max_over_mean = 1;  ///< worst
  double plan_seconds = 0;                    ///< median
};

/// What tune() found.
struct TunerResult {
  TunerSample sample;          ///< of the data
  std::vector<TunerRow> rows;  ///< in the order of the candidates
};

/// Plans steps 0, 1, ... of `data` with every candidate, and computes nothing else. `on_step` is
/// called after each step. Throws Error without candidates, steps or ranks, for a fixed topology of
/// another number of ranks, for caps below 0, and as make_home_plan() does; a plan that the caps
/// rule out is counted instead.
TunerResult tune(const DataSource& data, const TunerOptions& options,
                 const std::function<void()>& on_step = {});

/// Which row to use, as an index into the rows, and what to compare it with.
struct Recommendation {
  std::size_t chosen = 0;   ///< the row to use
  std::size_t fastest = 0;  ///< another one if `chosen` was preferred for its traffic
  std::optional<std::size_t> next_fixed = {};  ///< the fastest fixed topology but `chosen`
};

/// Steps closer than this are equally good.
inline constexpr double kTunerTolerance = 0.002;

/// Of the candidates that kept the caps on every step, the one with the shortest mean predicted
/// step; of those within kTunerTolerance of it the one with the fewest tokens that cross nodes.
/// Throws Error, with the numbers, when no candidate kept the caps.
Recommendation recommend(std::span<const TunerRow> rows);

}  // namespace knapformer
