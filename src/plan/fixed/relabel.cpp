// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/fixed/relabel.hpp"

#include <algorithm>
#include <tuple>

namespace knapformer {
namespace {

// Tokens of one bag that live at a place.
struct Link {
  std::int64_t bag;
  std::int64_t place;
  std::int64_t tokens;
};

// One link for each pair, most tokens first.
std::vector<Link> summed(std::vector<Link> links) {
  std::ranges::sort(links, {}, [](const Link& l) { return std::tuple(l.bag, l.place); });
  std::size_t kept = 0;
  for (const Link& link : links) {
    if (kept > 0 && links[kept - 1].bag == link.bag && links[kept - 1].place == link.place) {
      links[kept - 1].tokens += link.tokens;
    } else {
      links[kept++] = link;
    }
  }
  links.resize(kept);
  std::ranges::sort(links, {}, [](const Link& l) { return std::tuple(-l.tokens, l.bag, l.place); });
  return links;
}

// Gives the contents of every bag a bag of its kind to be in, greedily.
class BagNames {
 public:
  BagNames(const FixedProblem& problem, const BagOfItem& bag_of)
      : bags_(problem.bags), name_(bags_.size(), kNone), taken_(bags_.size()) {
    std::vector<Link> homes, nodes;
    for (std::size_t n = 0; n < bag_of.size(); ++n) {
      const FixedItem& item = problem.items[n];
      const std::int64_t bag = bag_of[n];
      if (bags_[bag].kind == bags_[item.home_bag].kind) {
        homes.push_back({bag, item.home_bag, item.tokens});
      }
      nodes.push_back({bag, item.home_node, item.tokens});
    }
    for (const Link& link : summed(std::move(homes))) name(link.bag, link.place);
    for (std::int64_t b = 0; b < std::ssize(bags_); ++b) {
      if (!taken_[b]) free_.push_back({bags_[b].kind, bags_[b].node, b});
    }
    std::ranges::sort(free_);
    for (const Link& link : summed(std::move(nodes))) {
      if (name_[link.bag] == kNone) name_within(link.bag, link.place);
    }
    for (std::int64_t b = 0; b < std::ssize(bags_); ++b) {
      if (name_[b] == kNone) name_within(b, bags_[b].node);
    }
    for (std::int64_t b = 0; b < std::ssize(bags_); ++b) {
      if (name_[b] == kNone) name_left_over(b);
    }
  }

  std::int64_t of(std::int64_t bag) const { return name_[bag]; }

 private:
  static constexpr std::int64_t kNone = -1;
  struct Free {
    std::int64_t kind;
    std::int64_t node;
    std::int64_t bag;
    auto operator<=>(const Free&) const = default;
  };

  bool name(std::int64_t bag, std::int64_t as) {
    if (name_[bag] != kNone || taken_[as]) return false;
    name_[bag] = as;
    taken_[as] = true;
    return true;
  }

  void name_within(std::int64_t bag, std::int64_t node) {
    const std::int64_t kind = bags_[bag].kind;
    auto at = std::ranges::lower_bound(free_, Free{kind, node, 0});
    while (at != free_.end() && at->kind == kind && at->node == node && !name(bag, at->bag)) ++at;
  }

  // Whoever is left of a kind takes what is left of it, in order.
  void name_left_over(std::int64_t bag) {
    if (next_.empty()) next_.resize(bags_.size());
    std::int64_t& next = next_[bags_[bag].kind];
    if (next == 0) {
      const Free first{bags_[bag].kind, 0, 0};
      next = std::ranges::lower_bound(free_, first) - free_.begin();
    }
    while (!name(bag, free_[next].bag)) ++next;
  }

  const std::vector<FixedBag>& bags_;
  std::vector<std::int64_t> name_;
  std::vector<bool> taken_;
  std::vector<Free> free_;  // not taken by the tokens at home
  std::vector<std::int64_t> next_;
};

// Lets equal items that are away change places with others that occupy their homes.
// `place_of_bag` and `home_of` say what counts as home.
template <class PlaceOfBag, class HomeOf>
void swap_equals(const FixedProblem& problem, std::int64_t first, std::int64_t last,
                 PlaceOfBag place_of_bag, HomeOf home_of, BagOfItem& bag_of) {
  struct Slot {
    std::int64_t place;
    std::int64_t item;
    auto operator<=>(const Slot&) const = default;
  };
  std::vector<Slot> slots;
  for (std::int64_t n = first; n < last; ++n) {
    const std::int64_t place = place_of_bag(bag_of[n]);
    if (place != home_of(problem.items[n])) slots.push_back({place, n});
  }
  std::ranges::sort(slots);
  std::vector<std::int64_t> slot_of(last - first);
  for (std::size_t s = 0; s < slots.size(); ++s)
    slot_of[slots[s].item - first] = static_cast<std::int64_t>(s);
  std::vector<std::int64_t> used(slots.size());  // at the first slot of a place
  std::vector<std::int64_t> away;
  for (const Slot& slot : slots) away.push_back(slot.item);
  for (const std::int64_t n : away) {
    // An item may find another in its home that comes from elsewhere; that one takes its place.
    const std::int64_t home = home_of(problem.items[n]);
    if (place_of_bag(bag_of[n]) == home) continue;
    const std::int64_t begin =
        std::ranges::lower_bound(slots, home, {}, &Slot::place) - slots.begin();
    if (begin == std::ssize(slots) || slots[begin].place != home) continue;
    const std::int64_t free = begin + used[begin];
    if (free >= std::ssize(slots) || slots[free].place != home) continue;
    ++used[begin];
    const std::int64_t other = slots[free].item;
    const std::int64_t mine = slot_of[n - first];
    std::swap(bag_of[n], bag_of[other]);
    slots[mine].item = other;
    slots[free].item = n;
    slot_of[n - first] = free;
    slot_of[other - first] = mine;
  }
}

}  // namespace

void relabel(const FixedProblem& problem, BagOfItem& bag_of) {
  const BagNames names(problem, bag_of);
  for (std::int64_t& bag : bag_of) bag = names.of(bag);
  const auto alike = [&](std::int64_t a, std::int64_t b) {
    return problem.items[a].tokens == problem.items[b].tokens &&
           problem.items[a].ticks == problem.items[b].ticks;
  };
  for (std::int64_t first = 0, last = 0; first < std::ssize(bag_of); first = last) {
    while (last < std::ssize(bag_of) && alike(first, last)) ++last;
    if (last - first == 1) continue;
    swap_equals(
        problem, first, last, [](std::int64_t bag) { return bag; },
        [](const FixedItem& item) { return item.home_bag; }, bag_of);
    swap_equals(
        problem, first, last, [&](std::int64_t bag) { return problem.bags[bag].node; },
        [](const FixedItem& item) { return item.home_node; }, bag_of);
  }
}

}  // namespace knapformer
