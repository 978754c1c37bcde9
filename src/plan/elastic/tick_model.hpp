// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "plan/plan_problem.hpp"

namespace knapformer {

/// Predicted time in fixed point: 2^30 of them are the ideal step.
using Ticks = std::int64_t;
inline constexpr int kIdealBits = 30;
inline constexpr Ticks kIdeal = Ticks{1} << kIdealBits;

/// What of a machine and a model enters the time of a rank, quantised once: from here on everything
/// is an exact integer.
class TickModel {
 public:
  explicit TickModel(const PlanProblem& problem);

  /// Compute time on a rank of average speed: all work is the ideal time on every rank.
  Ticks compute(std::int64_t i, std::int64_t tokens, std::int64_t heads) const {
    const Sequence& of = sequences_[i];
    return (of.per_token * tokens + of.per_head * heads) >> fraction_bits_;
  }
  void prefetch(std::int64_t i) const { __builtin_prefetch(&sequences_[i]); }
  Ticks whole(std::int64_t i) const { return sequences_[i].whole; }
  Ticks of_heads(std::int64_t i, std::int64_t heads) const { return compute(i, 0, heads); }

  /// What such a time is on a rank.
  Ticks at_speed_of(std::int64_t rank, Ticks work) const {
    if (slowness_.empty()) return work;
    return static_cast<Ticks>((Work{work} * slowness_[rank]) >> kSpeedBits);
  }
  /// And the other way round: what a rank does in a time.
  Ticks work_within(std::int64_t rank, Ticks time) const {
    if (speeds_.empty()) return time;
    return static_cast<Ticks>((Work{time} * speeds_[rank]) >> kSpeedBits);
  }

  /// Of rows times heads that a rank sends or receives around attention in a step.
  Ticks of_attention_rows(std::int64_t rows, bool far) const {
    return scaled(rows, attention_row_[far]);
  }
  Ticks of_routed_rows(std::int64_t rows, bool far) const { return scaled(rows, routed_row_[far]); }
  Ticks per_bag_peer() const { return per_bag_peer_; }
  Ticks per_route_peer() const { return per_route_peer_; }
  std::int64_t node(std::int64_t rank) const { return rank / ranks_per_node_; }
  bool on_node(std::int64_t node, std::int64_t rank) const {
    const std::int64_t first = node * ranks_per_node_;
    return first <= rank && rank - first < ranks_per_node_;
  }

 private:
  // Exchanges as long as this are too long anyway: sums of such stay within 64 bits.
  static constexpr Ticks kLongest = kIdeal << 14;
  static constexpr Ticks kLongestLatency = kIdeal << 8;
  static constexpr int kRowBits = 24;
  static constexpr int kSpeedBits = 24;
  static Ticks scaled(std::int64_t rows, std::int64_t factor) {
    return static_cast<Ticks>(std::min<Work>((Work{rows} * factor) >> kRowBits, kLongest));
  }

  std::int64_t ranks_per_node_;
  int fraction_bits_ = 0;
  struct Sequence {
    std::int64_t per_token = 0, per_head = 0;
    Ticks whole = 0;
  };
  std::vector<Sequence> sequences_;
  std::vector<std::int64_t> slowness_, speeds_;
  std::array<std::int64_t, 2> attention_row_{}, routed_row_{};
  Ticks per_bag_peer_ = 0, per_route_peer_ = 0;
};

}  // namespace knapformer
