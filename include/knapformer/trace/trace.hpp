// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace knapformer {

/// The layout of trace files that this library writes and reads; docs/trace.md describes it.
inline constexpr std::int64_t kTraceSchemaVersion = 1;

/// What a whole run has in common.
struct TraceHeader {
  std::int64_t ranks = 1;            ///< of the world
  std::int64_t group_size = 1;       ///< ranks of a balancing group; divides `ranks`
  std::string topology = {};         ///< of each group
  std::int64_t heads = 0;            ///< of the model
  std::int64_t kv_heads = 0;         ///< of keys and values, which bags split
  std::int64_t d_model = 0;          ///< width of the model
  std::int64_t layers = 0;           ///< of the model
  double gamma = 0;                  ///< of the cost model
  std::string dtype = {};            ///< of the model: "float", "double" or "bfloat16"
  std::int64_t threads = 1;          ///< of each rank
  std::int64_t micro_batches = 1;    ///< of each step
  std::string loss_mean = {};        ///< what counts alike in the loss: "tokens" or "samples"
  std::uint64_t seed = 0;            ///< of the data
  std::string data = {};             ///< DataSource::describe()
  std::string command_line = {};     ///< of the run
  std::string library_version = {};  ///< filled in by the writer
  std::string created = {};          ///< filled in by the writer: UTC, as 2025-01-31T23:59:59Z

  std::int64_t groups() const { return ranks / group_size; }  ///< balancing groups of the world
  friend bool operator==(const TraceHeader&, const TraceHeader&) = default;
};

/// The plan of one balancing group in one step. With micro-batches: counts and seconds are sums
/// over their plans, ratios are means weighted by work. Trivially copyable, so that it can be
/// gathered.
struct TraceGroup {
  std::uint64_t plan_hash = 0;      ///< of all micro-batches
  double max_over_mean_before = 1;  ///< WIR
  double max_over_mean_after = 1;   ///< as planned
  double max_over_min_before = 1;   ///< infinite when a rank has no work and another has
  double max_over_min_after = 1;    ///< as planned
  double lower_bound_gap = 0;       ///< largest load / lower bound - 1
  std::int64_t moved_tokens = 0;    ///< computed on another rank than their home
  std::int64_t total_tokens = 0;    ///< of the group
  double plan_seconds = 0;          ///< the longest that a rank took to make the plan

  friend bool operator==(const TraceGroup&, const TraceGroup&) = default;
};

/// One rank in one step. Trivially copyable, so that it can be gathered.
struct TraceRank {
  std::int64_t sequences = 0;      ///< loaded; as many as the lengths of the rank
  std::int64_t tokens_before = 0;  ///< loaded
  std::int64_t tokens_after = 0;   ///< computed
  double work_before = 0;          ///< in units of the cost model
  double work_after = 0;           ///< as planned
  // What the rank does itself, and what it waits for others meanwhile in wait_seconds.
  double plan_seconds = 0;      ///< starting to plan the next step, and what was not planned ahead
  double route_seconds = 0;     ///< route, reverse route and their adjoints
  double exchange_seconds = 0;  ///< pre-attention, post-attention and their adjoints
  double compute_seconds = 0;   ///< kernels and optimiser
  double reduce_seconds = 0;    ///< gradients over ranks, all of it
  double wait_seconds = 0;      ///< for others, in the above and before the gradients are reduced
  double busy_seconds = 0;      ///< planning, routing, exchange and compute
  /// Sharing the lengths of this step and planning it, behind the step before.
  double hidden_plan_seconds = 0;
  double hidden_exchange_seconds = 0;  ///< rows under way behind compute, around attention mostly
  double speed_estimate = 1;           ///< as the balancer had it, over the mean of its group
  std::int64_t bytes_routed = 0;       ///< sent to other ranks
  std::int64_t bytes_exchanged = 0;    ///< sent to other ranks
  // Memory in bytes: held after the step, and predicted for it and the steps before, those of the
  // warm-up included. What is predicted of the others is what they are.
  std::int64_t memory_parameters = 0;      ///< of the model
  std::int64_t memory_gradients = 0;       ///< of the parameters
  std::int64_t memory_optimizer = 0;       ///< its state
  std::int64_t memory_activations = 0;     ///< and what both passes work in
  std::int64_t memory_exchange = 0;        ///< rows, heads and lists of routings
  std::int64_t predicted_activations = 0;  ///< what memory_activations should be
  std::int64_t predicted_exchange = 0;     ///< what memory_exchange should be

  friend bool operator==(const TraceRank&, const TraceRank&) = default;
};

/// One step of all ranks.
struct TraceStep {
  std::int64_t index = 0;  ///< of the step in its run, at least 0; need not be consecutive
  bool balanced = false;   ///< false: everything stayed home
  double seconds = 0;      ///< of the slowest rank
  double loss = 0;  ///< half the mean squared error, over tokens or samples as the header says
  std::vector<TraceGroup> groups = {};  ///< one for each balancing group
  std::vector<TraceRank> ranks = {};    ///< one for each rank
  std::vector<std::vector<std::int64_t>> lengths =
      {};  ///< per rank the tokens of each sequence it loaded

  friend bool operator==(const TraceStep&, const TraceStep&) = default;
};

}  // namespace knapformer
