// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <knapformer/comm/communicator.hpp>
#include <knapformer/plan/planner.hpp>
#include <knapformer/trace/trace.hpp>
#include <knapformer/train/data_source.hpp>
#include <knapformer/train/loss_mean.hpp>
#include <knapformer/train/model_config.hpp>
#include <knapformer/train/phase_clock.hpp>
#include <knapformer/train/placement.hpp>
#include <span>
#include <vector>

namespace knapformer {

/// What simulate() trains, how it balances, and for how long. The same on all ranks.
struct SimulationOptions {
  ModelConfig model = {};  ///< what is trained
  Topology topology;       ///< of each balancing group
  std::int64_t group_size =
      0;             ///< ranks of a balancing group; 0: those of the topology, all if it is elastic
  double gamma = 0;  ///< of the cost model
  Machine machine = {};  ///< as PlanRequest has it, but with no speeds or one for each of `world`
  std::int64_t max_tokens_per_rank =
      PlanRequest::kNoCap;  ///< as PlanRequest has it, as are the next two
  std::int64_t max_attention_tokens_per_rank =
      PlanRequest::kNoCap;                                 ///< length times share of the heads
  std::int64_t plan_budget = PlanRequest::kDefaultBudget;  ///< changes tried
  bool adapt_to_speed = false;                             ///< of BalancerOptions
  /// How many times slower each rank of the world computes than it could, see ClockOptions; empty:
  /// none does.
  std::vector<double> slowdowns = {};
  std::int64_t steps = 20;                 ///< measured ones of each placement
  std::int64_t warmup = 2;                 ///< steps before those, neither counted nor reported
  std::uint64_t seed = 0;                  ///< of parameters and tokens
  double learning_rate = 0.01;             ///< of gradient descent
  std::int64_t micro_batches = 1;          ///< that each rank's batch of a step is cut into
  LossMean loss_mean = LossMean::kTokens;  ///< what counts alike
};

/// How well one way of placing tokens did over all measured steps.
struct PlacementSummary {
  double seconds = 0;         ///< sum of the step times
  double median_seconds = 0;  ///< of a step
  double tokens = 0;          ///< of all steps and ranks
  double busy_max = 0;        ///< sum over steps of the largest busy time of a rank
  double busy_mean = 0;       ///< sum over steps of the mean busy time
  double work_max_over_mean =
      1;  ///< WIR: largest over mean work of a rank, mean over groups and steps
  double work_max_over_min = 1;                 ///< infinite when some rank had nothing to do
  double moved_share = 0;                       ///< tokens computed away from home
  double bytes_routed = 0;                      ///< sent to other ranks, all steps
  double bytes_exchanged = 0;                   ///< the same around attention
  std::array<double, kPhases> phase_seconds{};  ///< mean over ranks and steps
  double hidden_plan_seconds = 0;               ///< mean over ranks and steps, as is the next
  double hidden_exchange_seconds = 0;           ///< of exchanges behind compute
};

/// The same steps without and with balancing.
struct Simulation {
  ClockKind clock =
      ClockKind::kWall;  ///< of busy times and phases: CPU time when ranks share cores
  double flops = 0;      ///< of all measured steps and ranks, recomputation included
  std::vector<TraceStep> unbalanced = {};  ///< the measured steps
  std::vector<TraceStep> balanced = {};    ///< the same steps, balanced

  /// Unbalanced over balanced step time.
  double speedup() const;
  /// What the imbalance allows: the largest over the mean busy time, without balancing.
  double bound() const;
  /// See knapformer::loss_difference().
  double loss_difference() const;
};

/// The same steps with each of some placements.
struct Comparison {
  ClockKind clock = ClockKind::kWall;              ///< see Simulation
  double flops = 0;                                ///< of the first placement, see Simulation
  std::vector<std::vector<TraceStep>> steps = {};  ///< the measured ones of each placement
};

/// Largest relative difference of the loss in the same step of two placements; not a number when a
/// loss is none, or infinite.
double loss_difference(const std::vector<TraceStep>& a, const std::vector<TraceStep>& b);

/// Collective: CPU time when the ranks of some node have more threads than it has cores, since
/// elapsed time then says more about the neighbours than about the rank.
ClockKind choose_clock(const Communicator& world, const Device& exec);

/// Of the steps of one placement, at least one.
PlacementSummary summarise(const std::vector<TraceStep>& steps);

/// Collective over `world`; every rank gets the same result. Groups are consecutive ranks. All
/// placements start from the same parameters and see the same data; they take turns step by step,
/// so that what else happens on the machine meets them alike. `on_step` is called on every rank
/// after each step of each placement, warm-up excluded. The topology of the options is that of the
/// group in which a placement without one stays at home. Double, float and bfloat16.
template <class T>
Comparison compare(const Communicator& world, const Device& exec, const DataSource& data,
                   const SimulationOptions& options, std::span<const Placement> placements,
                   const std::function<void(const TraceStep&)>& on_step = {});

/// Compares no balancing with the topology of the options, as compare() does.
template <class T>
Simulation simulate(const Communicator& world, const Device& exec, const DataSource& data,
                    const SimulationOptions& options,
                    const std::function<void(const TraceStep&)>& on_step = {});

}  // namespace knapformer
