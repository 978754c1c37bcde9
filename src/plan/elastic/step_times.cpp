// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/elastic/step_times.hpp"

#include <algorithm>
#include <numeric>

namespace knapformer {

StepTimes::StepTimes(const PlanProblem& problem, const TickModel& model)
    : problem_(problem), model_(model), ranks_(problem.ranks), slots_(problem.lengths.size()) {
  arena_.reserve(problem.lengths.size() + 1024);
}

void StepTimes::place(std::int64_t i, std::span<const Share> shares) {
  Slot& slot = slots_[i];
  const auto count = static_cast<std::int32_t>(shares.size());
  if (count > slot.room) {
    slot.first = std::ssize(arena_);
    slot.room = count;
    arena_.insert(arena_.end(), shares.begin(), shares.end());
  } else {
    std::ranges::copy(shares, arena_.begin() + slot.first);
  }
  slot.count = count;
  change(i, 1);
}

void StepTimes::place_whole(std::int64_t i, std::int64_t rank) {
  const Share all{rank, problem_.lengths[i], problem_.heads};
  place(i, std::span(&all, 1));
}

void StepTimes::remove(std::int64_t i) {
  change(i, -1);
  slots_[i].count = 0;
}

void StepTimes::change(std::int64_t i, std::int64_t sign) {
  const std::int64_t home = problem_.homes[i];
  const auto parts = shares(i);
  bool home_changes = false;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const Share& a = parts[k];
    RankState& rank = ranks_[a.rank];
    rank.compute += sign * model_.compute(i, a.tokens, a.heads);
    rank.tokens += sign * a.tokens;
    rank.attention_tokens += sign * problem_.lengths[i] * a.heads;
    if (a.rank != home) {
      const bool far = model_.node(a.rank) != model_.node(home);
      rank.routed_in[far] += sign * a.tokens;
      ranks_[home].routed_out[far] += sign * a.tokens;
      moved_ += sign * a.tokens;
      if (far) crossed_ += sign * a.tokens;
      meet(a.rank, home, false, sign);
      home_changes = true;
    }
    for (std::size_t l = k + 1; l < parts.size(); ++l) {
      change_pair(rank, ranks_[parts[l].rank], a, parts[l], sign);
      meet(a.rank, parts[l].rank, true, sign);
    }
  }
  for (const Share& a : parts) update(a.rank);
  if (home_changes) update(home);
}

void StepTimes::change_pair(RankState& one, RankState& other, const Share& a, const Share& b,
                            std::int64_t sign) {
  const bool far = model_.node(a.rank) != model_.node(b.rank);
  const std::int64_t to_other = sign * a.tokens * b.heads;
  const std::int64_t to_one = sign * b.tokens * a.heads;
  one.heads_out[far] += to_other;
  other.heads_in[far] += to_other;
  other.heads_out[far] += to_one;
  one.heads_in[far] += to_one;
}

void StepTimes::meet(std::int64_t a, std::int64_t b, bool in_bag, std::int64_t sign) {
  const std::int64_t key = (std::min(a, b) * problem_.ranks + std::max(a, b)) * 2 + in_bag;
  const std::int64_t count = pairs_.add(key, sign);
  const bool first_or_last = count == (sign > 0 ? 1 : 0);
  if (!first_or_last) return;
  for (const std::int64_t rank : {a, b}) {
    (in_bag ? ranks_[rank].bag_peers : ranks_[rank].route_peers) += sign;
  }
}

void StepTimes::update(std::int64_t rank) {
  RankState& of = ranks_[rank];
  excess_ -= excess_of(of.time);
  of.time = model_.at_speed_of(rank, of.compute) + of.bag_peers * model_.per_bag_peer() +
            of.route_peers * model_.per_route_peer();
  for (const bool far : {false, true}) {
    of.time += model_.of_attention_rows(std::max(of.heads_out[far], of.heads_in[far]), far) +
               model_.of_routed_rows(std::max(of.routed_out[far], of.routed_in[far]), far);
  }
  excess_ += excess_of(of.time);
}

Work StepTimes::above(Ticks time) {
  constexpr std::int64_t kMost = std::int64_t{1} << 26;  // 256 ideal steps
  return std::min(std::max<Ticks>(time - kIdeal, 0) >> kDroppedBits, kMost);
}

Work StepTimes::excess_of(Ticks time) {
  const Work excess = above(time);
  return excess * excess * excess * excess;
}

Work StepTimes::price_of_moving(std::int64_t slowest) const {
  const Work tokens = std::accumulate(problem_.lengths.begin(), problem_.lengths.end(), Work{0});
  const Work steepest = 4 * above(time(slowest)) * above(time(slowest)) * above(time(slowest));
  return steepest * (kIdeal >> kDroppedBits) / 100 * problem_.ranks / std::max<Work>(tokens, 1);
}

}  // namespace knapformer
