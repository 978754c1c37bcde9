// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <knapformer/comm/device.hpp>
#include <knapformer/comm/seconds.hpp>
#include <string_view>

namespace knapformer {

/// What a rank does in a step, one at a time. The first four are its own work, without what it
/// waits for others meanwhile.
enum class Phase : std::size_t {
  kPlan,      ///< starting to plan the next step, and what of this step was not planned ahead
  kRoute,     ///< routing, reverse routing and their adjoints
  kExchange,  ///< pre-attention, post-attention and their adjoints
  kCompute,   ///< kernels and optimiser; in CPU time also the thread that plans the next step
  kWait,      ///< for ranks or bytes that are not there yet, in any of the above and after them
  kReduce     ///< the sum of the gradients, all of it, from when the slowest rank is there
};
/// How many phases there are.
inline constexpr std::size_t kPhases = 6;
/// For people, in the order of Phase.
inline constexpr std::array<std::string_view, kPhases> kPhaseNames = {
    "planning", "routing", "pre/post-attention", "compute", "waiting", "gradient reduction"};

/// Seconds that a rank spends in each phase.
struct PhaseTimes {
  std::array<double, kPhases> seconds{};  ///< in the order of Phase

  /// Seconds of one phase.
  double& operator[](Phase phase) { return seconds[static_cast<std::size_t>(phase)]; }
  /// Seconds of one phase.
  double operator[](Phase phase) const { return seconds[static_cast<std::size_t>(phase)]; }

  /// Planning, routing, pre/post-attention and compute: the work of the rank itself.
  double busy() const;
};

/// Which seconds: elapsed ones, or the CPU time of the process per thread, which does not grow
/// while another rank has the core.
enum class ClockKind { kWall, kCpu };

/// How the times of a step are taken.
struct ClockOptions {
  ClockKind kind = ClockKind::kWall;  ///< which seconds
  /// At least 1. Makes the rank that many times slower at computing, to try what slow ranks do: at
  /// the end of each stretch of compute, one thread keeps a core busy for the rest of the time.
  double slowdown = 1;
};

/// Takes the times of the phases of one step.
class PhaseClock {
 public:
  /// `waited` returns what this rank has spent waiting for others so far, as
  /// Communicator::times() has it; none: nothing.
  PhaseClock(const Device& exec, const ClockOptions& options, std::function<Seconds()> waited = {});

  /// Ends the phase under way and begins `phase`. Fences the instance, so that device work counts
  /// where it was launched.
  void enter(Phase phase);
  void stop();  ///< ends the phase under way; fences the instance

  const PhaseTimes& times() const { return times_; }  ///< of the phases that have ended

  /// The seconds of this clock's kind; CPU time per thread.
  double of_kind(const Seconds& seconds) const;

 private:
  Device exec_;
  ClockOptions options_;
  std::function<Seconds()> waited_;
  PhaseTimes times_;
  Phase phase_ = Phase::kCompute;
  Seconds since_;
  Seconds waited_before_;
  bool running_ = false;
};

}  // namespace knapformer
