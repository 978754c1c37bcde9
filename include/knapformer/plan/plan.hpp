// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/plan/cost_model.hpp>
#include <knapformer/plan/machine.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace knapformer {

/// One rank's share of one sequence. Five int64 in a row, so that the chunks of a plan are also a
/// C, Fortran or NumPy array [chunks x 5].
struct Chunk {
  std::int64_t rank = 0;         ///< that computes it
  std::int64_t first_token = 0;  ///< within the sequence
  std::int64_t tokens = 0;       ///< at least 1
  std::int64_t first_head = 0;   ///< of the model
  std::int64_t heads = 0;        ///< at least 1

  friend bool operator==(const Chunk&, const Chunk&) = default;
};

/// What a plan does to the group, recomputed from its chunks. Ratios of an empty group are 1.
///
/// The load of a rank is its work over its speed. Ratios to the mean are to the load that all ranks
/// would have if work were spread in proportion to speed.
struct PlanReport {
  std::vector<double>
      work_before;  ///< per rank, `constant + 6 d L + gamma L^2` or the caller's costs
  std::vector<double> work_after;           ///< the same as planned
  std::vector<std::int64_t> tokens_before;  ///< per rank
  std::vector<std::int64_t> tokens_after;   ///< the same as planned
  std::vector<double> attention_tokens;  ///< per rank: length times the share of heads it computes
  double max_over_mean_before = 1;       ///< WIR of the loads
  double max_over_mean = 1;              ///< as planned
  double max_over_min_before = 1;        ///< infinite when a rank has no work and another has
  double max_over_min = 1;               ///< as planned
  double lower_bound = 0;  ///< no plan of this topology has a smaller largest load; 0 if unknown
  double lower_bound_gap = 0;          ///< largest load / lower_bound - 1
  double elastic_lower_bound = 0;      ///< no plan at all has a smaller largest load; 0 if unknown
  double elastic_lower_bound_gap = 0;  ///< largest load / elastic_lower_bound - 1
  std::int64_t total_tokens = 0;       ///< of all sequences
  std::int64_t moved_tokens = 0;       ///< computed on another rank than their home
  std::int64_t crossed_tokens = 0;     ///< computed on another node than their home
  double ulysses_tokens = 0;  ///< token rows of q, k, v and o that pre- and post-attention send,
                              ///< over 4 in units of whole rows: total_tokens if all of them travel
  double ulysses_bytes_per_layer = 0;  ///< those rows in bytes, of one forward pass
  std::vector<double> seconds;         ///< per rank: predicted time of a step, see Machine
  double step_seconds_before = 0;      ///< of the slowest rank if everything stays home
  double step_seconds = 0;             ///< of the slowest rank
  double ideal_seconds = 0;            ///< work spread in proportion to speed, no communication
  double step_over_ideal = 1;          ///< step_seconds / ideal_seconds
  double plan_seconds = 0;  ///< time to make the plan; the one field that differs between ranks
};

/// Bounds on the largest load that a planner proved, in units of work over speed; 0 if unknown.
struct PlanBounds {
  double topology = 0;  ///< for the bags it was given
  double elastic = 0;   ///< whatever the bags
};

/// For every sequence its home, bag, token ranges and head ranges. Immutable; copies share the
/// memory.
///
/// Sequences are ordered by home rank, then by position there. Sequence i has chunks
/// [chunk_offsets()[i], chunk_offsets()[i+1]) in bag order; they tile its tokens and its heads. A
/// sequence without tokens has no chunk.
class Plan {
 public:
  /// Arrays as described above; `report` is computed here. `costs` is empty, or one per sequence,
  /// in which case work goes with a rank's share of the tokens. The time the constructor takes is
  /// added to `plan_seconds`. Throws Error when validate() would, and for numbers out of range.
  Plan(std::int64_t ranks, std::int64_t heads, const CostModel& cost,
       std::vector<std::int64_t> homes, std::vector<std::int64_t> lengths,
       std::vector<std::int64_t> chunk_offsets, std::vector<Chunk> chunks,
       std::span<const std::int64_t> costs = {}, const Machine& machine = {},
       PlanBounds bounds = {}, double plan_seconds = 0);

  /// More heads than any model has.
  static constexpr std::int64_t kMaxHeads = std::int64_t{1} << 16;

  std::int64_t ranks() const;                           ///< of the group
  std::int64_t heads() const;                           ///< of the model
  std::int64_t sequences() const;                       ///< of all ranks
  std::span<const std::int64_t> homes() const;          ///< the rank that loaded each sequence
  std::span<const std::int64_t> lengths() const;        ///< tokens of each sequence
  std::span<const std::int64_t> chunk_offsets() const;  ///< [sequences + 1]
  std::span<const Chunk> all_chunks() const;            ///< sequence after sequence
  std::span<const Chunk> chunks(
      std::int64_t sequence) const;  ///< of one sequence, in [0, sequences())

  const PlanReport& report() const;                                ///< made with the plan
  double max_over_mean() const { return report().max_over_mean; }  ///< the WIR as planned

  /// Identifies homes, lengths, chunks, ranks and heads; equal on every rank, compiler and CPU.
  std::uint64_t hash() const;

  /// Checks every invariant of a plan and throws Error naming the first sequence that breaks one.
  void validate() const;

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

}  // namespace knapformer
