// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "route/speed_estimate.hpp"

#include <algorithm>
#include <cmath>

namespace knapformer {
namespace {

constexpr double kOne = 0x1p20;
constexpr double kSlowest = 0x1p-7;
constexpr double kFastest = 0x1p7;

/// Ranks with less than this share of the work that is fair at their speed take no part.
constexpr double kLeastShare = 0.25;

/// And move by this part of the way to the mean.
constexpr std::int64_t kForgotten = 256;

std::int64_t quantised(double speed) {
  return std::llround(std::clamp(speed, kSlowest, kFastest) * kOne);
}

std::int64_t median(std::int64_t a, std::int64_t b, std::int64_t c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

}  // namespace

SpeedEstimate::SpeedEstimate(std::span<const double> initial) {
  double sum = 0;
  for (const double speed : initial) sum += speed;
  const double mean = sum / static_cast<double>(initial.size());
  for (const double speed : initial) {
    const std::int64_t units = quantised(speed / mean);
    ranks_.push_back({units, {units, units}});
  }
  normalise();
}

void SpeedEstimate::update(std::span<const BusyReport> reports) {
  double work = 0, reporting = 0;
  for (const BusyReport& report : reports) {
    if (!(report.seconds > 0)) continue;
    work += report.work;
    reporting += 1;
  }
  if (reporting == 0) return;
  const double least = kLeastShare * (work / reporting) / kOne;

  std::vector<double> rates(ranks_.size(), 0);
  double sum_of_rates = 0, sum_of_speeds = 0;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const double speed = static_cast<double>(ranks_[r].speed);
    const bool enough = reports[r].work > 0 && reports[r].work >= least * speed;
    const double rate = reports[r].work / reports[r].seconds;
    if (!enough || !(reports[r].seconds > 0) || !std::isfinite(rate)) continue;
    rates[r] = rate;
    sum_of_rates += rates[r];
    sum_of_speeds += speed / kOne;
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    if (rates[r] == 0) {
      rank.speed += (static_cast<std::int64_t>(kOne) - rank.speed) / kForgotten;
      continue;
    }
    const std::int64_t sample = quantised(rates[r] / sum_of_rates * sum_of_speeds);
    rank.speed += (median(sample, rank.last[0], rank.last[1]) - rank.speed) / 2;
    rank.last = {sample, rank.last[0]};
  }
  normalise();
}

void SpeedEstimate::normalise() {
  std::int64_t sum = 0;
  for (const Rank& rank : ranks_) sum += rank.speed;
  const double scale = static_cast<double>(ranks_.size()) / static_cast<double>(sum);
  for (Rank& rank : ranks_) rank.speed = quantised(static_cast<double>(rank.speed) * scale);
}

std::vector<double> SpeedEstimate::speeds() const {
  std::vector<double> out;
  for (const Rank& rank : ranks_) out.push_back(static_cast<double>(rank.speed) / kOne);
  return out;
}

}  // namespace knapformer
