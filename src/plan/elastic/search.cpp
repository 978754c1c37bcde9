// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/elastic/search.hpp"

#include <algorithm>
#include <numeric>

namespace knapformer {

ElasticSearch::ElasticSearch(const PlanProblem& problem, std::span<const std::int64_t> order,
                             const Pods& pods, StepTimes& times)
    : problem_(problem),
      pods_(pods),
      times_(times),
      sharing_(problem, times),
      on_rank_(problem.ranks),
      changes_(pods.count(), 1),
      stuck_at_(problem.ranks, 0) {
  for (const std::int64_t i : order) {
    for (const Share& share : times.shares(i)) on_rank_[share.rank].push_back(i);
  }
}

void ElasticSearch::run(std::int64_t budget) {
  budget_ = budget;
  for (std::int64_t rank = 0; rank < problem_.ranks; ++rank) queue(rank);
  move_price_ = times_.price_of_moving(-slowest_.top().second);
  while (budget_-- > 0) {
    const std::int64_t rank = slowest();
    if (rank < 0) return;
    if (!improve(rank)) stuck_at_[rank] = changes_[pods_.of(rank)];
  }
}

// -1 if none can be helped any more.
std::int64_t ElasticSearch::slowest() {
  while (!slowest_.empty()) {
    const auto [time, negative] = slowest_.top();
    const std::int64_t rank = -negative;
    if (time == times_.time(rank) && stuck_at_[rank] != changes_[pods_.of(rank)]) return rank;
    slowest_.pop();
  }
  return -1;
}

// The fastest ranks of the pod, and the fastest of some others.
void ElasticSearch::find_calm_ranks(std::int64_t rank) {
  constexpr std::size_t kOfPod = 3;
  const auto faster = [&](std::int64_t a, std::int64_t b) {
    return times_.time(a) != times_.time(b) ? times_.time(a) < times_.time(b) : a < b;
  };
  const std::int64_t pod = pods_.of(rank);
  calm_.resize(pods_.end(pod) - pods_.first(pod));
  std::iota(calm_.begin(), calm_.end(), pods_.first(pod));
  std::erase(calm_, rank);
  const std::size_t some = std::min(kOfPod, calm_.size());
  std::ranges::partial_sort(calm_, calm_.begin() + static_cast<std::ptrdiff_t>(some), faster);
  calm_.resize(some);
  constexpr std::int64_t kPods = 4;
  for (std::int64_t k = 1; k <= std::min(kPods, pods_.count() - 1); ++k) {
    const std::int64_t other = (pod + k) % pods_.count();
    std::int64_t best = pods_.first(other);
    for (std::int64_t r = best; r < pods_.end(other); ++r) {
      if (faster(r, best)) best = r;
    }
    calm_.push_back(best);
  }
}

bool ElasticSearch::improve(std::int64_t rank) {
  find_calm_ranks(rank);
  const std::vector<std::int64_t> here = on_rank_[rank];
  for (const std::int64_t i : here) {
    if (budget_ <= 0) return false;
    if (times_.shares(i).size() > 1 && improve_split(i, rank)) return true;
  }
  for (const std::int64_t other : calm_) {
    if (budget_ <= 0) return false;
    if (improve_pair(rank, other)) return true;
  }
  return false;
}

// Another bag for a sequence of several ranks.
bool ElasticSearch::improve_split(std::int64_t i, std::int64_t rank) {
  std::vector<std::int64_t> bag;
  for (const Share& share : times_.shares(i)) bag.push_back(share.rank);
  const auto try_bag = [&](const std::vector<std::int64_t>& ranks) {
    return attempt(ranks, [&] { return put_level(i, ranks); });
  };
  if (try_bag(bag)) return true;
  std::vector<std::int64_t> changed = bag;
  std::erase(changed, rank);
  if (try_bag(changed)) return true;
  for (const std::int64_t other : calm_) {
    if (pods_.of(other) != pods_.of(rank)) break;
    if (std::ranges::find(bag, other) != bag.end()) continue;
    changed = bag;
    std::ranges::replace(changed, rank, other);
    if (try_bag(changed)) return true;
    if (std::ssize(bag) == sharing_.most_ranks(i)) continue;
    changed = bag;
    changed.push_back(other);
    if (try_bag(changed)) return true;
  }
  return false;
}

// Moves a whole sequence from a slow rank to another, swaps two, or splits one between them:
// whatever brings their times closest.
bool ElasticSearch::improve_pair(std::int64_t rank, std::int64_t other) {
  const TickModel& model = times_.model();
  const Ticks gap = times_.time(rank) - times_.time(other);
  if (gap <= 0) return false;
  std::int64_t moved = -1, given = -1, taken = -1, split = -1;
  // Moving work shortens one time and lengthens the other: both changes shall make up for the gap.
  const auto off_by = [&](Ticks work) {
    return std::abs(model.at_speed_of(rank, work) + model.at_speed_of(other, work) - gap);
  };
  Ticks least_of_move = gap, least_of_swap = gap;
  constexpr std::size_t kMost = 64;  // more choice would cost more than it brings
  const auto some = [&](std::int64_t r) {
    return std::span(on_rank_[r]).first(std::min(kMost, on_rank_[r].size()));
  };
  // Looking at this many pairs costs about as much as a change.
  constexpr std::size_t kPairsOfAChange = 128;
  budget_ -= static_cast<std::int64_t>(some(rank).size() * some(other).size() / kPairsOfAChange);
  for (const std::int64_t i : some(rank)) {
    if (times_.shares(i).size() > 1) continue;
    const Ticks off = off_by(model.whole(i));
    if (off < least_of_move) {
      least_of_move = off;
      moved = i;
    }
    const bool too_much = model.at_speed_of(rank, model.whole(i)) > gap / 2;
    if (too_much && (split < 0 || model.whole(i) < model.whole(split))) split = i;
    for (const std::int64_t j : some(other)) {
      if (times_.shares(j).size() > 1) continue;
      const Ticks swap_off = off_by(model.whole(i) - model.whole(j));
      if (swap_off < least_of_swap) {
        least_of_swap = swap_off;
        given = i;
        taken = j;
      }
    }
  }
  const std::int64_t both[] = {rank, other};
  const auto whole = [&](std::int64_t i, std::int64_t to) {
    put(i, {});
    if (!sharing_.fits(i, to)) return false;
    times_.place_whole(i, to);
    return true;
  };
  if (moved >= 0 && attempt(both, [&] { return whole(moved, other); })) return true;
  if (given >= 0 && attempt(both, [&] {
        put(taken, {});
        return whole(given, other) && whole(taken, rank);
      })) {
    return true;
  }
  return split >= 0 && pods_.of(rank) == pods_.of(other) && sharing_.most_ranks(split) > 1 &&
         attempt(both, [&] { return put_level(split, both); });
}

template <class Change>
bool ElasticSearch::attempt(std::span<const std::int64_t> ranks, Change change) {
  const Work before = harm();
  undo_size_ = 0;
  if (change()) {
    for (const std::int64_t rank : ranks) level_shared(rank);
    if (harm() < before) {
      keep();
      return true;
    }
  }
  take_back();
  return false;
}

// Places a sequence anew, or on no rank for now if there are no shares.
void ElasticSearch::put(std::int64_t i, std::span<const Share> shares) {
  // A wide bag costs more: every two of its ranks talk.
  constexpr std::size_t kPairsOfAChange = 1024;
  const std::size_t ranks = std::max(times_.shares(i).size(), shares.size());
  budget_ -= 1 + static_cast<std::int64_t>(ranks * ranks / 2 / kPairsOfAChange);
  const bool known =
      std::any_of(undo_.begin(), undo_.begin() + static_cast<std::ptrdiff_t>(undo_size_),
                  [&](const Before& b) { return b.sequence == i; });
  if (!known) {
    if (undo_size_ == undo_.size()) undo_.emplace_back();
    Before& before = undo_[undo_size_++];
    before.sequence = i;
    const auto now = times_.shares(i);
    before.shares.assign(now.begin(), now.end());
  }
  if (times_.placed(i)) times_.remove(i);
  if (!shares.empty()) times_.place(i, shares);
}

bool ElasticSearch::put_level(std::int64_t i, std::span<const std::int64_t> bag) {
  put(i, {});
  const auto shares = sharing_.level(i, bag);
  if (shares.empty()) return false;
  times_.place(i, shares);
  return true;
}

// What a rank shares with others is shared anew where that pays.
void ElasticSearch::level_shared(std::int64_t rank) {
  constexpr int kMost = 16;
  std::vector<std::int64_t> bag;
  std::vector<Share> old;
  int levelled = 0;
  for (const std::int64_t i : on_rank_[rank]) {
    const auto shares = times_.shares(i);
    if (shares.size() < 2) continue;
    if (++levelled > kMost || budget_ <= 0) return;
    old.assign(shares.begin(), shares.end());
    bag.clear();
    for (const Share& share : old) bag.push_back(share.rank);
    const Work before = harm();
    if (put_level(i, bag) && harm() < before) continue;
    put(i, old);
  }
}

void ElasticSearch::keep() {
  changed_pods_.clear();
  const auto changed = [&](std::int64_t rank) {
    const std::int64_t pod = pods_.of(rank);
    if (std::ranges::find(changed_pods_, pod) == changed_pods_.end()) changed_pods_.push_back(pod);
  };
  for (std::size_t k = 0; k < undo_size_; ++k) {
    const Before& before = undo_[k];
    changed(problem_.homes[before.sequence]);
    for (const Share& share : before.shares) {
      std::erase(on_rank_[share.rank], before.sequence);
      changed(share.rank);
    }
    for (const Share& share : times_.shares(before.sequence)) {
      on_rank_[share.rank].push_back(before.sequence);
      changed(share.rank);
    }
  }
  for (const std::int64_t pod : changed_pods_) {
    ++changes_[pod];
    for (std::int64_t r = pods_.first(pod); r < pods_.end(pod); ++r) queue(r);
  }
}

void ElasticSearch::take_back() {
  for (std::size_t k = 0; k < undo_size_; ++k) {
    const Before& before = undo_[k];
    if (times_.placed(before.sequence)) times_.remove(before.sequence);
  }
  for (std::size_t k = 0; k < undo_size_; ++k) {
    times_.place(undo_[k].sequence, undo_[k].shares);
  }
}

}  // namespace knapformer
