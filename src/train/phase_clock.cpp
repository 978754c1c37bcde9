// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/train/phase_clock.hpp>
#include <utility>

namespace knapformer {

double PhaseTimes::busy() const {
  const PhaseTimes& of = *this;
  return of[Phase::kPlan] + of[Phase::kRoute] + of[Phase::kExchange] + of[Phase::kCompute];
}

PhaseClock::PhaseClock(const Device& exec, const ClockOptions& options,
                       std::function<Seconds()> waited)
    : exec_(exec), options_(options), waited_(std::move(waited)) {
  if (!waited_) waited_ = [] { return Seconds{}; };
}

double PhaseClock::of_kind(const Seconds& seconds) const {
  if (options_.kind == ClockKind::kWall) return seconds.elapsed;
  return seconds.cpu / exec_.concurrency();
}

void PhaseClock::enter(Phase phase) {
  stop();
  phase_ = phase;
  waited_before_ = waited_();
  since_ = process_seconds();
  running_ = true;
}

void PhaseClock::stop() {
  if (!running_) return;
  running_ = false;
  exec_.fence("KnapFormer::phase");
  const double spent = of_kind(process_seconds() - since_);
  if (phase_ == Phase::kReduce) {  // which is done by waiting for it
    times_[phase_] += spent;
    return;
  }
  const double waited = of_kind(waited_() - waited_before_);
  times_[Phase::kWait] += phase_ == Phase::kWait ? spent : waited;
  if (phase_ == Phase::kWait) return;
  double worked = spent - waited;
  if (phase_ == Phase::kCompute && options_.slowdown > 1) {
    const double target = worked * options_.slowdown;
    while (worked < target) worked = of_kind(process_seconds() - since_) - waited;
  }
  times_[phase_] += worked;
}

}  // namespace knapformer
