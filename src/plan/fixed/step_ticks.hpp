// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/assignment.hpp"
#include "plan/plan_problem.hpp"

namespace knapformer {

/// Predicted time in integers, so that every machine compares alike. All ticks of a problem in sum
/// stay below 2^61.
using Ticks = std::int64_t;

/// The machine of a problem in ticks, rounded once.
class StepTicks {
 public:
  explicit StepTicks(const PlanProblem& problem);

  /// Computing `work` at speed 1.
  Ticks of_work(Work work) const { return static_cast<Ticks>(work >> shift_); }

  /// Speed 1 as `speeds()` has it.
  static constexpr std::int64_t kSpeedOne = std::int64_t{1} << 28;
  const std::vector<std::int64_t>& speeds() const { return speeds_; }

  /// Ticks at speed 1 become ticks of ranks that share them, at `inverse_of` their speeds in sum.
  static std::int64_t inverse_of(std::int64_t speed) { return (std::int64_t{1} << 62) / speed; }
  static Ticks shared(Ticks ticks, std::int64_t inverse) {
    return static_cast<Ticks>(Work{ticks} * inverse >> 34);
  }
  Ticks compute(Work work, std::int64_t rank) const {
    return shared(of_work(work), inverse_of(speeds_[rank]));
  }

  /// Within a node, and beyond it: a row through all exchanges around attention of a step, or
  /// through those that route it.
  using Tiers = std::array<Ticks, 2>;
  Tiers attention_row{}, route_row{};
  Ticks attention_peer = 0;
  Ticks route_peer = 0;

  /// The slowest rank's.
  Ticks largest(const PlanProblem& problem, const Assignment& assignment) const;

 private:
  int shift_ = 0;
  std::vector<std::int64_t> speeds_;
};

}  // namespace knapformer
