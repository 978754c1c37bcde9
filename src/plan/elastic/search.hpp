// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "plan/elastic/pods.hpp"
#include "plan/elastic/sharing.hpp"
#include "plan/elastic/step_times.hpp"

namespace knapformer {

/// Improves where sequences are computed, one small change after another, from the slowest rank on:
/// another share, another rank, a swap. After each the sequences that the ranks in question share
/// with others are levelled; the change stays if all this pays.
class ElasticSearch {
 public:
  /// `order`: all sequences with tokens, from the most work to the least.
  ElasticSearch(const PlanProblem& problem, std::span<const std::int64_t> order, const Pods& pods,
                StepTimes& times);

  /// Places at most `budget` sequences anew, fewer in bags of more than 45 ranks.
  void run(std::int64_t budget);

 private:
  bool improve(std::int64_t rank);
  bool improve_split(std::int64_t i, std::int64_t rank);
  bool improve_pair(std::int64_t rank, std::int64_t other);
  void queue(std::int64_t rank) { slowest_.emplace(times_.time(rank), -rank); }
  std::int64_t slowest();
  void find_calm_ranks(std::int64_t rank);

  Work harm() const { return times_.excess() + move_price_ * times_.moved_tokens(); }

  /// Makes a change by placing sequences anew, levels what `ranks` share, and keeps it if it pays.
  template <class Change>
  bool attempt(std::span<const std::int64_t> ranks, Change change);
  void put(std::int64_t i, std::span<const Share> shares);
  bool put_level(std::int64_t i, std::span<const std::int64_t> bag);
  void level_shared(std::int64_t rank);
  void keep();
  void take_back();

  const PlanProblem& problem_;
  const Pods& pods_;
  StepTimes& times_;
  Sharing sharing_;
  std::int64_t budget_ = 0;
  Work move_price_ = 0;  // of computing a token away from home
  std::vector<std::vector<std::int64_t>> on_rank_;
  // Ranks that may be helped, the slowest on top, the lower index first; entries go stale.
  std::priority_queue<std::pair<Ticks, std::int64_t>> slowest_;
  std::vector<std::int64_t> changes_;   // per pod
  std::vector<std::int64_t> stuck_at_;  // per rank: the change of its pod since which nothing helps
  std::vector<std::int64_t> calm_;
  std::vector<std::int64_t> changed_pods_;  // by the current attempt

  // The sequences that the current attempt placed anew, and their shares before.
  struct Before {
    std::int64_t sequence;
    std::vector<Share> shares;
  };
  std::vector<Before> undo_;
  std::size_t undo_size_ = 0;
};

}  // namespace knapformer
