// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "plan/elastic/pods.hpp"
#include "plan/elastic/step_times.hpp"

namespace knapformer {

/// Which pod computes which sequences: few leave the pod of their home, and all pods finish
/// together.
class PodBalance {
 public:
  /// `sequences` from the most work to the least; `used`: per pod, the work that it has already.
  PodBalance(const PlanProblem& problem, const TickModel& model, const Pods& pods,
             std::span<const std::int64_t> sequences, std::vector<Ticks> used);

  /// Of a pod, from the most work to the least.
  std::span<const std::int64_t> sequences(std::int64_t pod) const { return members_[pod]; }

  /// When a pod would finish if its work were spread evenly.
  Ticks level(std::int64_t pod) const {
    return static_cast<Ticks>((Work{used_[pod]} << kSpeedBits) / capacity_[pod]);
  }

 private:
  static constexpr int kSpeedBits = 20;
  using Levels = std::set<std::pair<Ticks, std::int64_t>>;

  Ticks needed(std::int64_t i) const;
  Ticks room(std::int64_t pod, Ticks level) const {
    return static_cast<Ticks>((Work{level} * capacity_[pod]) >> kSpeedBits) - used_[pod];
  }
  void start_at_home(std::span<const std::int64_t> sequences);
  void leave_full_pods();
  void fill_free_pods();
  void deal_out(std::span<const std::int64_t> sequences);
  bool has_token_room(std::int64_t pod, std::int64_t more) const {
    return tokens_[pod] + more <= most_tokens_[pod];
  }
  void even_out();
  bool exchange(std::int64_t from, std::int64_t to);
  void move(std::int64_t i, std::int64_t from, std::int64_t to);
  std::vector<std::int64_t>::iterator find(std::int64_t pod, Ticks need);

  const PlanProblem& problem_;
  const TickModel& model_;
  const Pods& pods_;
  std::vector<Ticks> needs_;
  std::vector<std::int64_t> capacity_;  // sum of speeds
  std::vector<Ticks> used_;
  std::vector<std::int64_t> tokens_, most_tokens_;
  std::vector<std::vector<std::int64_t>> members_;  // from the largest need to the smallest
  struct Leaving {
    Ticks less_need;
    std::int64_t sequence;
    std::int64_t from;  // the pod
    auto operator<=>(const Leaving&) const = default;
  };
  std::vector<Leaving> leaving_;
  Ticks fair_ = 0;  // the level if all pods had the same
};

}  // namespace knapformer
