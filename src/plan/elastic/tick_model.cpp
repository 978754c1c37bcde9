// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/elastic/tick_model.hpp"

#include <algorithm>
#include <cmath>

#include "plan/predicted_time.hpp"

namespace knapformer {
namespace {

// Products and quotients only, and then one rounding of what is not negative: the same on every
// CPU.
std::int64_t rounded(double value) {
  constexpr double kMost = 0x1p60;
  const double capped = std::min(value, kMost);
  const auto down = static_cast<std::int64_t>(capped);
  return down + (capped - static_cast<double>(down) >= 0.5);
}

// In whole units of 2^-32, so that no CPU may round the sum differently.
double sum_of(const std::vector<double>& speeds) {
  std::int64_t sum = 0;
  for (const double speed : speeds) sum += rounded(std::ldexp(speed, 32));
  return std::ldexp(static_cast<double>(sum), -32);
}

}  // namespace

TickModel::TickModel(const PlanProblem& problem) : ranks_per_node_(problem.machine.ranks_per_node) {
  const Machine& machine = problem.machine;
  const CostModel& cost = problem.work.cost();
  const double ranks = static_cast<double>(problem.ranks);
  const double mean_speed = machine.speeds.empty() ? 1 : sum_of(machine.speeds) / ranks;
  for (const double speed : machine.speeds) {
    speeds_.push_back(rounded(speed / mean_speed * (1 << kSpeedBits)));
    slowness_.push_back(rounded(mean_speed / speed * (1 << kSpeedBits)));
  }
  // Work that costs nothing leaves only traffic to compare, in a unit that does not matter.
  const double fair =
      problem.work.total() == 0 ? 1 : problem.work.value(problem.work.total()) / ranks;
  const double ticks_per_work = static_cast<double>(kIdeal) / fair;

  // As many bits behind the point as the largest sequence leaves room for.
  const std::int64_t n = std::ssize(problem.lengths);
  sequences_.resize(n);
  const double largest = problem.work.value(problem.work.largest()) * ticks_per_work;
  while (fraction_bits_ < 40 && std::ldexp(largest, fraction_bits_) < 0x1p59) ++fraction_bits_;
  const double scale = std::ldexp(ticks_per_work, fraction_bits_);
  for (std::int64_t i = 0; i < n; ++i) {
    if (problem.lengths[i] == 0) continue;
    const auto [token, head] = problem.work.token_and_head(i);
    sequences_[i] = {rounded(token * scale), rounded(head * scale)};
    sequences_[i].whole = compute(i, problem.lengths[i], problem.heads);
  }

  const double tick =
      fair / mean_speed * seconds_per_work(machine, cost) / static_cast<double>(kIdeal);
  const double row = static_cast<double>(cost.d_model() * machine.bytes_per_element);
  const double attention = kAttentionPasses * static_cast<double>(machine.layers);
  const double bandwidths[] = {machine.bandwidth_within, machine.bandwidth_between};
  for (int far = 0; far < 2; ++far) {
    const double per_row = std::ldexp(row / bandwidths[far] / tick, kRowBits);
    routed_row_[far] = rounded(kTokenExchanges * per_row);
    attention_row_[far] =
        rounded(attention * kTensorsAroundAttention * per_row / static_cast<double>(problem.heads));
  }
  per_bag_peer_ = std::min(rounded(2 * attention * machine.latency / tick), kLongestLatency);
  per_route_peer_ = std::min(rounded(kTokenExchanges * machine.latency / tick), kLongestLatency);
}

}  // namespace knapformer
