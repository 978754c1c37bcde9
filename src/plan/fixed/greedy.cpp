// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/fixed/greedy.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "plan/fixed/bag_loads.hpp"
#include "plan/fixed/share_out.hpp"

namespace knapformer {
namespace {

// Bags of one degree and of about the same speed.
struct BagClass {
  std::int64_t example;
  std::vector<std::int64_t> bags;
  BagLoads ticks{1};
  BagLoads tokens{1};
};

class Greedy {
 public:
  explicit Greedy(const FixedProblem& problem)
      : problem_(problem), place_(problem.bags.size()), bag_of_(problem.items.size(), kNone) {
    std::map<std::pair<std::int64_t, int>, std::int64_t> classes;
    for (std::int64_t b = 0; b < std::ssize(problem.bags); ++b) {
      const FixedBag& bag = problem.bags[b];
      const auto next = std::ssize(classes_);
      const auto [at, added] = classes.try_emplace({bag.degree, magnitude(bag.inverse)}, next);
      if (added) classes_.push_back({.example = b, .bags = {}});
      BagClass& of = classes_[at->second];
      place_[b] = {at->second, std::ssize(of.bags)};
      of.bags.push_back(b);
    }
    for (BagClass& of : classes_) {
      of.ticks = BagLoads(std::ssize(of.bags));
      of.tokens = BagLoads(std::ssize(of.bags));
    }
  }

  std::optional<BagOfItem> run(GreedyRule rule) {
    for (std::int64_t n = 0; n < std::ssize(bag_of_); ++n) {
      if (bag_of_[n] != kNone) continue;
      const std::int64_t bag = choose(problem_.items[n], rule);
      if (bag == kNone) return std::nullopt;
      put(n, bag);
    }
    return std::move(bag_of_);
  }

  // Counts all that an item costs, not work alone.
  void stay_home(Ticks limit) {
    whole_cost_ = true;
    for (std::int64_t b = 0; b < std::ssize(problem_.bags); ++b) {
      if (problem_.bags[b].base > 0) load(b).add(place_[b].slot, problem_.bags[b].base);
    }
    for (std::int64_t n = 0; n < std::ssize(bag_of_); ++n) {
      const FixedItem& item = problem_.items[n];
      const std::int64_t home = item.home_bag;
      const Ticks after = load(home).load(place_[home].slot) + cost(item, home);
      if (after <= limit && has_room(item, home)) put(n, home);
    }
  }

 private:
  struct Place {
    std::int64_t bag_class;
    std::int64_t slot;
  };
  static constexpr std::int64_t kNone = -1;

  // Numbers of equal magnitude differ by less than an eighth.
  static int magnitude(std::int64_t value) {
    const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value)));
    return bits * 8 + static_cast<int>(value >> std::max(bits - 4, 0) & 7);
  }

  BagLoads& load(std::int64_t bag) { return classes_[place_[bag].bag_class].ticks; }

  Ticks cost(const FixedItem& item, std::int64_t bag) const {
    return whole_cost_ ? problem_.cost(item, bag) : problem_.compute(item, problem_.bags[bag]);
  }

  bool has_room(const FixedItem& item, std::int64_t bag) const {
    if (!problem_.capped) return true;
    const auto [c, slot] = place_[bag];
    return classes_[c].tokens.load(slot) + item.tokens <= problem_.bags[bag].room &&
           problem_.holds(item, problem_.bags[bag].degree);
  }

  std::int64_t choose(const FixedItem& item, GreedyRule rule) const {
    Ticks bearable = PlanRequest::kNoCap;
    if (rule == GreedyRule::kLeastOccupied) {
      for (const BagClass& of : classes_) {
        bearable = std::min(bearable, problem_.alone(item, problem_.bags[of.example]));
      }
      bearable = std::max(bearable, problem_.fair);
    }
    std::int64_t best = kNone;
    Ticks best_key = 0;
    for (const BagClass& of : classes_) {
      const Ticks alone = problem_.alone(item, problem_.bags[of.example]);
      if (alone > bearable && !problem_.capped) continue;
      std::int64_t slot = least_loaded(of, item.home_bag);
      if (!has_room(item, of.bags[slot])) slot = of.tokens.least();
      if (!has_room(item, of.bags[slot])) continue;
      Ticks key = of.ticks.load(slot);
      if (rule == GreedyRule::kLeastAfterAdding || alone > bearable) key += alone;
      if (whole_cost_) key += item.tokens * problem_.bags[of.bags[slot]].attention_row;
      if (best == kNone || key < best_key) {
        best = of.bags[slot];
        best_key = key;
      }
    }
    return best;
  }

  // Bags of one class are alike, so among equally loaded ones the home of the sequence costs
  // nothing.
  std::int64_t least_loaded(const BagClass& of, std::int64_t home) const {
    const std::int64_t least = of.ticks.least();
    const auto [c, slot] = place_[home];
    if (&classes_[c] != &of) return least;
    return of.ticks.load(slot) == of.ticks.load(least) ? slot : least;
  }

  void put(std::int64_t n, std::int64_t bag) {
    const FixedItem& item = problem_.items[n];
    const auto [c, slot] = place_[bag];
    classes_[c].ticks.add(slot, cost(item, bag));
    if (problem_.capped) classes_[c].tokens.add(slot, item.tokens);
    bag_of_[n] = bag;
  }

  const FixedProblem& problem_;
  std::vector<BagClass> classes_;
  std::vector<Place> place_;  // of every bag
  BagOfItem bag_of_;
  bool whole_cost_ = false;
};

}  // namespace

std::optional<BagOfItem> greedy(const FixedProblem& problem, GreedyRule rule) {
  return Greedy(problem).run(rule);
}

std::optional<BagOfItem> greedy_from_home(const FixedProblem& problem, Ticks limit) {
  Greedy greedy(problem);
  greedy.stay_home(limit);
  return greedy.run(GreedyRule::kLeastAfterAdding);
}

std::optional<BagOfItem> best_fit(const FixedProblem& problem) {
  using Room = std::pair<std::int64_t, std::int64_t>;  // and the bag that has it
  std::map<std::int64_t, std::set<Room>> rooms;        // by degree
  for (std::int64_t b = 0; b < std::ssize(problem.bags); ++b) {
    rooms[problem.bags[b].degree].insert({problem.bags[b].room, b});
  }
  BagOfItem bag_of(problem.items.size(), -1);
  for (std::size_t n = 0; n < bag_of.size(); ++n) {
    const FixedItem& item = problem.items[n];
    for (auto& [degree, bags] : rooms) {
      if (!problem.holds(item, degree)) continue;
      const auto at = bags.lower_bound({item.tokens, 0});
      if (at == bags.end()) continue;
      const auto [room, bag] = *at;
      bags.erase(at);
      bags.insert({room - item.tokens, bag});
      bag_of[n] = bag;
      break;
    }
    if (bag_of[n] < 0) return std::nullopt;
  }
  return bag_of;
}

Assignment assign(const PlanProblem& problem, GreedyRule rule) {
  PlanProblem free = problem;
  free.max_tokens = free.max_attention_tokens = PlanRequest::kNoCap;
  const FixedProblem fixed(free);
  return share_out(fixed, *greedy(fixed, rule));
}

}  // namespace knapformer
