// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/elastic/step_times.hpp"

#include <algorithm>
#include <numeric>

namespace knapformer {

StepTimes::StepTimes(const PlanProblem& problem, const TickModel& model, const Pods& pods)
    : problem_(problem),
      model_(model),
      ranks_(problem.ranks),
      slots_(problem.lengths.size()),
      bag_pairs_(problem.ranks, pods.size()),
      route_pairs_(problem.ranks, pods.size()) {}

void StepTimes::place(std::int64_t i, std::span<const Share> shares) {
  Slot& slot = slots_[i];
  const auto count = static_cast<std::int32_t>(shares.size());
  if (count == 1) {
    slot.whole = shares.front();
  } else if (count > slot.room) {
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
  const std::int64_t home = problem_.homes[i], home_node = model_.node(home);
  const auto bag = shares(i);
  bool home_changes = false;
  OnNode near;
  for (std::size_t k = 0; k < bag.size(); ++k) {
    const Share& a = bag[k];
    add_share(ranks_[a.rank], i, a, bag, near, sign);
    for (const Share& b : bag.subspan(k + 1)) {
      meet(bag_pairs_, &RankState::bag_peers, a.rank, b.rank, sign);
    }
    if (a.rank == home) continue;
    const bool far = !model_.on_node(home_node, a.rank);
    ranks_[a.rank].routed_in[far] += sign * a.tokens;
    ranks_[home].routed_out[far] += sign * a.tokens;
    moved_ += sign * a.tokens;
    if (far) crossed_ += sign * a.tokens;
    meet(route_pairs_, &RankState::route_peers, a.rank, home, sign);
    home_changes = true;
  }
  for (const Share& a : bag) update(a.rank);
  if (home_changes) update(home);
}

Work StepTimes::excess_with(std::int64_t i, std::span<const Share> shares) const {
  const std::int64_t home = problem_.homes[i], home_node = model_.node(home);
  RankState at_home = ranks_[home];
  RankState other;
  OnNode near;
  Work excess = excess_ - excess_of(at_home.time);
  for (const Share& a : shares) {
    const bool is_home = a.rank == home;
    if (!is_home) other = ranks_[a.rank];
    RankState& rank = is_home ? at_home : other;
    add_share(rank, i, a, shares, near, 1);
    for (const Share& b : shares) {
      rank.bag_peers += a.rank != b.rank && bag_pairs_.of(a.rank, b.rank) == 0;
    }
    if (is_home) continue;
    const bool far = !model_.on_node(home_node, a.rank);
    const bool first = route_pairs_.of(a.rank, home) == 0;
    other.routed_in[far] += a.tokens;
    other.route_peers += first;
    at_home.routed_out[far] += a.tokens;
    at_home.route_peers += first;
    excess += excess_of(time_of(a.rank, other)) - excess_of(other.time);
  }
  return excess + excess_of(time_of(home, at_home));
}

// What computing a share takes, exchanges around attention included: tokens go to the heads of the
// other ranks, and theirs come to its heads. `near` is kept from one share of the bag to the next.
void StepTimes::add_share(RankState& to, std::int64_t i, const Share& share,
                          std::span<const Share> bag, OnNode& near, std::int64_t sign) const {
  const std::int64_t length = problem_.lengths[i], heads = problem_.heads;
  to.compute += sign * model_.compute(i, share.tokens, share.heads);
  to.tokens += sign * share.tokens;
  to.attention_tokens += sign * length * share.heads;
  if (bag.size() == 1) return;
  if (near.node < 0 || !model_.on_node(near.node, share.rank)) {
    near = {.node = model_.node(share.rank)};
    for (const Share& other : bag) {
      if (!model_.on_node(near.node, other.rank)) continue;
      near.tokens += other.tokens;
      near.heads += other.heads;
    }
  }
  to.heads_out[0] += sign * share.tokens * (near.heads - share.heads);
  to.heads_in[0] += sign * share.heads * (near.tokens - share.tokens);
  to.heads_out[1] += sign * share.tokens * (heads - near.heads);
  to.heads_in[1] += sign * share.heads * (length - near.tokens);
}

void StepTimes::meet(PairCounts& pairs, std::int64_t RankState::*peers, std::int64_t a,
                     std::int64_t b, std::int64_t sign) {
  const bool first_or_last = pairs.add(a, b, sign) == (sign > 0 ? 1 : 0);
  if (!first_or_last) return;
  ranks_[a].*peers += sign;
  ranks_[b].*peers += sign;
}

void StepTimes::update(std::int64_t rank) {
  RankState& of = ranks_[rank];
  excess_ -= excess_of(of.time);
  of.time = time_of(rank, of);
  excess_ += excess_of(of.time);
}

Ticks StepTimes::time_of(std::int64_t rank, const RankState& state) const {
  Ticks time = model_.at_speed_of(rank, state.compute) + state.bag_peers * model_.per_bag_peer() +
               state.route_peers * model_.per_route_peer();
  for (const bool far : {false, true}) {
    time += model_.of_attention_rows(std::max(state.heads_out[far], state.heads_in[far]), far) +
            model_.of_routed_rows(std::max(state.routed_out[far], state.routed_in[far]), far);
  }
  return time;
}

std::int64_t StepTimes::above(Ticks time) {
  constexpr std::int64_t kMost = std::int64_t{1} << 26;  // 256 ideal steps
  return std::min(std::max<Ticks>(time - kIdeal, 0) >> kDroppedBits, kMost);
}

Work StepTimes::excess_of(Ticks time) {
  const std::int64_t square = above(time) * above(time);
  return Work{square} * square;
}

Work StepTimes::price_of_moving(std::int64_t slowest) const {
  const Work tokens = std::accumulate(problem_.lengths.begin(), problem_.lengths.end(), Work{0});
  const Work steepest =
      Work{4} * above(time(slowest)) * above(time(slowest)) * above(time(slowest));
  return steepest * (kIdeal >> kDroppedBits) / 100 * problem_.ranks / std::max<Work>(tokens, 1);
}

}  // namespace knapformer
