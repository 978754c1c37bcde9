// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <ctime>
#include <knapformer/train/phase_clock.hpp>

namespace knapformer {

PhaseClock::PhaseClock(const Device& exec, ClockKind kind) : exec_(exec), kind_(kind) {}

double PhaseClock::now() const {
  timespec t{};
  clock_gettime(kind_ == ClockKind::kWall ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
  const double seconds = static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  return kind_ == ClockKind::kWall ? seconds : seconds / exec_.concurrency();
}

void PhaseClock::enter(Phase phase) {
  stop();
  phase_ = phase;
  since_ = now();
  running_ = true;
}

void PhaseClock::stop() {
  if (!running_) return;
  exec_.fence("KnapFormer::phase");
  seconds_[static_cast<std::size_t>(phase_)] += now() - since_;
  running_ = false;
}

}  // namespace knapformer
