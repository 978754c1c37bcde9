// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/work_order.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

namespace knapformer {

// Elastic bags start from single ranks.
WorkOrder::WorkOrder(const PlanProblem& problem) : problem_(problem) {
  bags_.reserve(problem.topology.ranks());
  for (const Bag& bag : problem.topology.bags()) {
    bags_.insert(bags_.end(), bag.degree, bag.first_rank);
  }
}

// Most work is a 64-bit number, which sorts twice as fast.
std::vector<std::int64_t> WorkOrder::of(std::int64_t first, std::int64_t end, Work above) const {
  constexpr Work kMost = std::numeric_limits<std::int64_t>::max();
  return problem_.work.largest() <= kMost ? sorted<std::int64_t>(first, end, above)
                                          : sorted<Work>(first, end, above);
}

template <class Number>
std::vector<std::int64_t> WorkOrder::sorted(std::int64_t first, std::int64_t end,
                                            Work above) const {
  std::vector<Key<Number>> keys;
  if (above < 0) keys.reserve(end - first);
  for (std::int64_t i = first; i < end; ++i) {
    if (problem_.lengths[i] == 0) continue;
    const Work work = problem_.work.sequence(i);
    if (work > above) keys.push_back({static_cast<Number>(-work), i});
  }
  std::ranges::sort(keys);
  for (auto equal = keys.begin(); equal != keys.end();) {
    const auto last = std::find_if(equal, keys.end(), [&](const Key<Number>& key) {
      return key.less_work != equal->less_work;
    });
    take_turns(std::span(equal, last));
    equal = last;
  }
  std::vector<std::int64_t> order(keys.size());
  std::ranges::transform(keys, order.begin(), &Key<Number>::sequence);
  return order;
}

// Sequences of equal work, ordered by home: first one of every bag, then the second ones.
template <class Number>
void WorkOrder::take_turns(std::span<Key<Number>> equals) const {
  const auto same_bag = [&](const Key<Number>& a, const Key<Number>& b) {
    return bag_of(a.sequence) == bag_of(b.sequence);
  };
  if (std::ranges::adjacent_find(equals, same_bag) == equals.end()) return;
  std::vector<std::int64_t> turns{0};
  for (std::size_t k = 1; k < equals.size(); ++k) {
    turns.push_back(same_bag(equals[k - 1], equals[k]) ? turns.back() + 1 : 0);
  }
  std::vector<std::int64_t> next(*std::ranges::max_element(turns) + 2);  // place of every turn
  for (const std::int64_t turn : turns) ++next[turn + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  const std::vector<Key<Number>> by_home(equals.begin(), equals.end());
  for (std::size_t k = 0; k < by_home.size(); ++k) equals[next[turns[k]]++] = by_home[k];
}

}  // namespace knapformer
