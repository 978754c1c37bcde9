// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/plan/plan.hpp>
#include <vector>

#include "plan/group_work.hpp"
#include "plan/traffic.hpp"

namespace knapformer {

/// How often a step computes and communicates, see Machine: work in forward passes of a layer, an
/// exchange around attention per layer, an exchange of tokens per step.
inline constexpr double kForwardPasses = 4;
inline constexpr double kAttentionPasses = 3;
inline constexpr double kTokenExchanges = 4;
/// q, k and v before attention, the output after it.
inline constexpr double kTensorsAroundAttention = 4;

/// FLOPs of a forward pass through a layer are 4 d times the work in units of the formula.
inline double seconds_per_work(const Machine& machine, const CostModel& cost) {
  return kForwardPasses * static_cast<double>(machine.layers) *
         static_cast<double>(4 * cost.d_model()) / machine.flops;
}

inline double speed_of(const Machine& machine, std::int64_t rank) {
  return machine.speeds.empty() ? 1 : machine.speeds[rank];
}

/// Predicted seconds of every rank, from the chunks of a valid plan. `load` is each rank's work
/// over its speed, in units of the formula.
std::vector<double> predicted_seconds(const PlacedSequences& placed, const CostModel& cost,
                                      const Machine& machine, const std::vector<double>& load);

}  // namespace knapformer
