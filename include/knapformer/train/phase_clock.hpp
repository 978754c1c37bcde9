// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <cstddef>
#include <knapformer/route/routing.hpp>
#include <string_view>

namespace knapformer {

/// What a rank does in a step, one at a time. Compute includes the optimiser; waiting is the time
/// until the slowest rank is ready to reduce the gradients. Planning, routing and
/// pre/post-attention include what the rank waits for its peers there.
enum class Phase : std::size_t { kPlan, kRoute, kExchange, kCompute, kWait, kReduce };
inline constexpr std::size_t kPhases = 6;
inline constexpr std::array<std::string_view, kPhases> kPhaseNames = {
    "planning", "routing", "pre/post-attention", "compute", "waiting", "gradient reduction"};

/// Which seconds: elapsed ones, or the CPU time of the process per thread, which does not grow
/// while another rank has the core.
enum class ClockKind { kWall, kCpu };

/// Seconds that this rank spends in each phase.
class PhaseClock {
 public:
  PhaseClock(const Device& exec, ClockKind kind);

  /// Ends the phase under way and begins `phase`. Fences the instance, so that device work counts
  /// where it was launched.
  void enter(Phase phase);
  void stop();

  double seconds(Phase phase) const { return seconds_[static_cast<std::size_t>(phase)]; }

 private:
  double now() const;

  Device exec_;
  ClockKind kind_;
  std::array<double, kPhases> seconds_{};
  Phase phase_ = Phase::kCompute;
  double since_ = 0;
  bool running_ = false;
};

}  // namespace knapformer
