// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/elastic/pods.hpp"
#include "plan/elastic/sharing.hpp"
#include "plan/elastic/step_times.hpp"

namespace knapformer {

/// Places the sequences of a pod on its ranks, so that none finishes later than a given time if
/// that can be had. Sequences that fit stay home; others fill the gaps, whole if they fit and split
/// if not.
class PodFilling {
 public:
  PodFilling(const PlanProblem& problem, const Pods& pods, StepTimes& times)
      : problem_(problem),
        model_(times.model()),
        pods_(pods),
        times_(times),
        sharing_(problem, times) {}

  /// When the sequences that no rank can compute in time are placed: first, on few ranks each; or
  /// last, when the others are spread evenly, so that every rank has some of their work, which
  /// comes with few tokens.
  enum class Long { kFirst, kLast };

  /// `sequences` from the most work to the least, none placed yet. Returns how many were not
  /// placed, because the caps leave no room for them in the pod.
  std::int64_t run(std::int64_t pod, std::span<const std::int64_t> sequences, Ticks time,
                   Long when);

 private:
  Ticks free_work(std::int64_t rank) const {
    return model_.work_within(rank, time_ - times_.time(rank));
  }
  Ticks most_in_time(std::int64_t pod) const;
  void sort_out(std::int64_t pod, std::span<const std::int64_t> sequences);
  void place_long(std::int64_t pod);
  void place_short(std::int64_t pod);
  void spread_short(std::int64_t pod);
  bool stays_home(std::int64_t i, std::int64_t pod) const;
  bool place_whole(std::int64_t i, std::int64_t pod);
  bool place_split(std::int64_t i, std::int64_t pod);
  bool place_where_least_harm(std::int64_t i, std::span<const std::int64_t> ranks);

  const PlanProblem& problem_;
  const TickModel& model_;
  const Pods& pods_;
  StepTimes& times_;
  Sharing sharing_;
  Ticks time_ = 0;
  std::vector<std::int64_t> long_, short_, away_;
  std::int64_t refused_ = 0;
  std::vector<Ticks> home_work_;  // of the sequences that would rather stay there
  struct Emptiness {
    Ticks less_free, home_work;
    std::int64_t rank;
    auto operator<=>(const Emptiness&) const = default;
  };
  std::vector<Emptiness> emptiest_;
  std::vector<std::int64_t> ranks_;
  std::vector<Share> best_;
};

}  // namespace knapformer
