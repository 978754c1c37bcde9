// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace knapformer {

/// Work that a rank has done, and the seconds that it was busy with it; no seconds, no report.
struct BusyReport {
  double work = 0;
  double seconds = 0;
};

/// How fast the ranks of a group are relative to each other, learnt from what they report.
///
/// A step's samples are work over busy seconds, scaled to what the estimate says of the ranks that
/// take part. The median of the last three samples of a rank moves its estimate half the way, so
/// that one odd step changes nothing. Ranks with little work for their speed take no
/// part: what they do besides counts too much. What is known of them fades, so that one that was
/// slow for a while is not left without work for good. The state is integers, so every rank has the
/// same.
class SpeedEstimate {
 public:
  /// Positive numbers, one for each rank, of which only the ratios matter.
  explicit SpeedEstimate(std::span<const double> initial);

  /// One report from each rank.
  void update(std::span<const BusyReport> reports);

  /// Their mean is 1, to rounding.
  std::vector<double> speeds() const;

 private:
  struct Rank {
    std::int64_t speed = 0;                 // in units of 2^-20, as are
    std::array<std::int64_t, 2> last = {};  // the samples before
  };
  void normalise();

  std::vector<Rank> ranks_;
};

}  // namespace knapformer
