// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/fixed/improve.hpp"

#include <algorithm>
#include <set>

namespace knapformer {
namespace {

// Partners tried for the slowest bag before it counts as stuck.
constexpr int kMostPartners = 24;
// Items looked at when one seeks another to change places with.
constexpr std::int64_t kWindow = 12;

class Search {
 public:
  Search(const FixedProblem& problem, BagOfItem& bag_of, std::int64_t& budget)
      : problem_(problem),
        bag_of_(bag_of),
        budget_(budget),
        members_(problem.bags.size()),
        time_(problem.bags.size()),
        tokens_(problem.bags.size()) {
    for (std::int64_t n = 0; n < std::ssize(bag_of); ++n) {
      const std::int64_t bag = bag_of[n];
      members_[bag].push_back(n);
      time_[bag] += cost(n, bag);
      tokens_[bag] += tokens(n);
    }
    for (std::int64_t b = 0; b < std::ssize(time_); ++b) {
      time_[b] += problem_.bags[b].base;
      if (!members_[b].empty()) time_[b] += problem_.bags[b].peers;
      by_time_.insert({time_[b], b});
    }
  }

  void lower_the_largest() {
    while (budget_ > 0 && relieve(by_time_.rbegin()->second)) {
    }
  }

  void send_home() {
    const Ticks limit = by_time_.rbegin()->first;
    for (std::int64_t n = 0; n < std::ssize(bag_of_) && budget_ > 0; ++n) {
      if (bag_of_[n] != problem_.items[n].home_bag) send_home(n, limit);
    }
  }

 private:
  static constexpr std::int64_t kNone = -1;
  // What gives place to each other: an item of one bag, and one of another or none.
  struct Change {
    std::int64_t give = kNone;
    std::int64_t take = kNone;
  };

  std::int64_t tokens(std::int64_t n) const { return problem_.items[n].tokens; }
  Ticks cost(std::int64_t n, std::int64_t bag) const {
    return problem_.cost(problem_.items[n], bag);
  }

  // What the time of a bag would be with `in` for `out`, either of which may be none.
  Ticks time_after(std::int64_t bag, std::int64_t out, std::int64_t in) const {
    Ticks time = time_[bag];
    std::int64_t left = std::ssize(members_[bag]);
    if (left == 0) time += problem_.bags[bag].peers;
    if (out != kNone) time -= cost(out, bag), --left;
    if (in != kNone) time += cost(in, bag), ++left;
    return left == 0 ? problem_.bags[bag].base : time;
  }

  bool has_room(std::int64_t bag, std::int64_t out, std::int64_t in) const {
    if (!problem_.capped || in == kNone) return true;
    const std::int64_t after = tokens_[bag] - (out == kNone ? 0 : tokens(out)) + tokens(in);
    return (after <= problem_.bags[bag].room || after <= tokens_[bag]) &&
           problem_.holds(problem_.items[in], problem_.bags[bag].degree);
  }

  bool relieve(std::int64_t slow) {
    int partners = 0;
    for (const auto& [time, bag] : by_time_) {
      if (time >= time_[slow] || ++partners > kMostPartners || budget_ <= 0) break;
      const Change best = best_change(slow, bag);
      if (best.give == kNone) continue;
      apply(slow, bag, best);
      return true;
    }
    return false;
  }

  // Both lists fall in work. For each item given there is a place in the other list from which on
  // what comes back is too little, and the best is beside it; it moves down with the item given.
  Change best_change(std::int64_t slow, std::int64_t bag) {
    const auto& theirs = members_[bag];
    Change best;
    Ticks least = time_[slow];
    std::size_t at = 0;
    for (const std::int64_t give : members_[slow]) {
      if (budget_ <= 0) break;
      for (;; ++at) {
        const std::int64_t take = at < theirs.size() ? theirs[at] : kNone;
        const Ticks there = time_after(bag, take, give);
        const Ticks here = time_after(slow, give, take);
        --budget_;
        const Ticks largest = std::max(here, there);
        if (largest < least && has_room(bag, take, give) && has_room(slow, give, take)) {
          least = largest;
          best = {give, take};
        }
        if (there >= here || take == kNone) break;
      }
      if (at > 0) --at;
    }
    return best;
  }

  void apply(std::int64_t from, std::int64_t to, const Change& change) {
    by_time_.erase({time_[from], from});
    by_time_.erase({time_[to], to});
    const Ticks here = time_after(from, change.give, change.take);
    time_[to] = time_after(to, change.take, change.give);
    time_[from] = here;
    transfer(change.give, from, to);
    if (change.take != kNone) transfer(change.take, to, from);
    by_time_.insert({time_[from], from});
    by_time_.insert({time_[to], to});
  }

  void transfer(std::int64_t n, std::int64_t from, std::int64_t to) {
    auto& old = members_[from];
    old.erase(std::ranges::lower_bound(old, n));
    auto& now = members_[to];
    now.insert(std::ranges::lower_bound(now, n), n);
    tokens_[from] -= tokens(n);
    tokens_[to] += tokens(n);
    bag_of_[n] = to;
  }

  void send_home(std::int64_t n, Ticks limit) {
    const std::int64_t from = bag_of_[n];
    const std::int64_t home = problem_.items[n].home_bag;
    Change best;
    std::int64_t most = 0;
    const auto consider = [&](std::int64_t take) {
      --budget_;
      std::int64_t gain = tokens(n);
      if (take != kNone) {
        const std::int64_t lives = problem_.items[take].home_bag;
        gain += lives == from ? tokens(take) : lives == home ? -tokens(take) : 0;
      }
      if (gain <= most || time_after(home, take, n) > limit || time_after(from, n, take) > limit ||
          !has_room(home, take, n) || !has_room(from, n, take)) {
        return;
      }
      most = gain;
      best = {n, take};
    };
    consider(kNone);
    const auto& there = members_[home];
    const std::int64_t middle = std::ranges::lower_bound(there, n) - there.begin();
    const std::int64_t first = std::max<std::int64_t>(middle - kWindow, 0);
    const std::int64_t last = std::min<std::int64_t>(middle + kWindow, std::ssize(there));
    for (std::int64_t at = first; at < last; ++at) consider(there[at]);
    if (best.give != kNone) apply(from, home, best);
  }

  const FixedProblem& problem_;
  BagOfItem& bag_of_;
  std::int64_t& budget_;
  std::vector<std::vector<std::int64_t>> members_;  // of every bag, in order
  std::vector<Ticks> time_;
  std::vector<std::int64_t> tokens_;
  std::set<std::pair<Ticks, std::int64_t>> by_time_;
};

}  // namespace

void improve(const FixedProblem& problem, BagOfItem& bag_of, std::int64_t& budget) {
  Search(problem, bag_of, budget).lower_the_largest();
}

void send_home(const FixedProblem& problem, BagOfItem& bag_of, std::int64_t& budget) {
  Search(problem, bag_of, budget).send_home();
}

Ticks largest_unrouted(const FixedProblem& problem, const BagOfItem& bag_of) {
  std::vector<Ticks> time(problem.bags.size());
  for (std::size_t n = 0; n < bag_of.size(); ++n) {
    const FixedBag& bag = problem.bags[bag_of[n]];
    time[bag_of[n]] +=
        problem.compute(problem.items[n], bag) + problem.items[n].tokens * bag.attention_row;
  }
  return *std::ranges::max_element(time);
}

}  // namespace knapformer
