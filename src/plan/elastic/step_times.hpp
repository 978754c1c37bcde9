// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/elastic/pair_counts.hpp"
#include "plan/elastic/pods.hpp"
#include "plan/elastic/tick_model.hpp"

namespace knapformer {

/// One rank's part of a sequence that is being planned.
struct Share {
  std::int64_t rank = 0;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;

  friend bool operator==(const Share&, const Share&) = default;
};

/// Sequences placed on ranks, and the time of every rank that follows (see Machine), kept up to
/// date as sequences come and go.
class StepTimes {
 public:
  StepTimes(const PlanProblem& problem, const TickModel& model, const Pods& pods);

  void place(std::int64_t i, std::span<const Share> shares);
  void place_whole(std::int64_t i, std::int64_t rank);
  void remove(std::int64_t i);
  bool placed(std::int64_t i) const { return slots_[i].count > 0; }
  std::span<const Share> shares(std::int64_t i) const {
    const Slot& slot = slots_[i];
    if (slot.count == 1) return std::span(&slot.whole, 1);
    return std::span(arena_).subspan(slot.first, slot.count);
  }

  /// Fetches what placing a sequence reads: random places in memory, of which many are fetched in
  /// the time of one.
  void prefetch_sequence(std::int64_t i) const {
    __builtin_prefetch(&slots_[i], 1);
    __builtin_prefetch(&problem_.homes[i]);
    __builtin_prefetch(&problem_.lengths[i]);
    model_.prefetch(i);
  }
  /// `rank`: one of the pod in which it will be placed.
  void prefetch_home(std::int64_t i, std::int64_t rank) const {
    const RankState& home = ranks_[problem_.homes[i]];
    __builtin_prefetch(&home.time, 1);
    __builtin_prefetch(&home.route_peers, 1);
    route_pairs_.prefetch(problem_.homes[i], rank);
  }

  Ticks time(std::int64_t rank) const { return ranks_[rank].time; }
  std::int64_t tokens(std::int64_t rank) const { return ranks_[rank].tokens; }
  /// Length times heads.
  std::int64_t attention_tokens(std::int64_t rank) const { return ranks_[rank].attention_tokens; }
  /// What a search makes small: the sum over ranks of a steep power of the time above the ideal, so
  /// that the slowest rank matters most and yet every exchange saved counts.
  Work excess() const { return excess_; }
  /// What it would be with sequence i, which is not placed, in these shares.
  Work excess_with(std::int64_t i, std::span<const Share> shares) const;
  /// What computing a token away from home may cost in excess: staying is preferred where balance
  /// gains little. Moving as many tokens as an average rank has must save a hundredth of a step of
  /// `slowest`.
  Work price_of_moving(std::int64_t slowest) const;
  std::int64_t moved_tokens() const { return moved_; }
  std::int64_t crossed_tokens() const { return crossed_; }

  const TickModel& model() const { return model_; }

 private:
  static constexpr int kDroppedBits = 12;
  struct RankState {
    Ticks time = 0;
    Ticks compute = 0;  ///< at average speed
    std::int64_t tokens = 0;
    std::int64_t attention_tokens = 0;
    // Rows that leave and arrive, within the node and beyond it; around attention times heads.
    std::array<std::int64_t, 2> heads_out{}, heads_in{}, routed_out{}, routed_in{};
    std::int64_t bag_peers = 0, route_peers = 0;
  };
  // The shares of a sequence: one here, more in the arena.
  struct Slot {
    Share whole;
    std::int64_t first = 0;
    std::int32_t count = 0;
    std::int32_t room = 0;
  };
  // What a bag has on one node.
  struct OnNode {
    std::int64_t node = -1;
    std::int64_t tokens = 0, heads = 0;
  };

  void change(std::int64_t i, std::int64_t sign);
  void add_share(RankState& to, std::int64_t i, const Share& share, std::span<const Share> bag,
                 OnNode& near, std::int64_t sign) const;
  void meet(PairCounts& pairs, std::int64_t RankState::*peers, std::int64_t a, std::int64_t b,
            std::int64_t sign);
  void update(std::int64_t rank);
  Ticks time_of(std::int64_t rank, const RankState& state) const;
  /// Above the ideal, in units that keep its fourth power small.
  static std::int64_t above(Ticks time);
  static Work excess_of(Ticks time);

  const PlanProblem& problem_;
  const TickModel& model_;
  std::vector<RankState> ranks_;
  std::vector<Slot> slots_;
  std::vector<Share> arena_;
  PairCounts bag_pairs_, route_pairs_;
  Work excess_ = 0;
  std::int64_t moved_ = 0, crossed_ = 0;
};

}  // namespace knapformer
