// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/plan_problem.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace knapformer {
namespace {

// The first rank of every rank's bag; elastic bags start from single ranks.
std::vector<std::int64_t> bags_of_ranks(const Topology& topology, std::int64_t ranks) {
  std::vector<std::int64_t> out;
  out.reserve(ranks);
  if (topology.is_elastic()) {
    out.resize(ranks);
    std::iota(out.begin(), out.end(), 0);
  }
  for (const Bag& bag : topology.bags()) out.insert(out.end(), bag.degree, bag.first_rank);
  return out;
}

// Sequences of equal work, ordered by home: first one of every bag, then the second ones.
void take_turns(std::span<std::int64_t> equals, const PlanProblem& problem,
                const std::vector<std::int64_t>& bags) {
  std::vector<std::pair<std::int64_t, std::int64_t>> turns;  // and sequences
  turns.reserve(equals.size());
  std::int64_t last_bag = -1;
  for (const std::int64_t i : equals) {
    const std::int64_t bag = bags[problem.homes[i]];
    turns.emplace_back(bag == last_bag ? turns.back().first + 1 : 0, i);
    last_bag = bag;
  }
  std::ranges::sort(turns);
  std::ranges::transform(turns, equals.begin(), [](const auto& turn) { return turn.second; });
}

// Most work is a 64-bit number, which sorts twice as fast.
template <class Number>
std::vector<std::int64_t> sorted_by_work(const PlanProblem& problem) {
  std::vector<std::pair<Number, std::int64_t>> keys;  // less work, and the sequence
  keys.reserve(problem.lengths.size());
  for (std::int64_t i = 0; i < std::ssize(problem.lengths); ++i) {
    if (problem.lengths[i] > 0) keys.emplace_back(-problem.work.sequence(i), i);
  }
  std::ranges::sort(keys);
  std::vector<std::int64_t> order(keys.size());
  std::ranges::transform(keys, order.begin(), [](const auto& key) { return key.second; });
  return order;
}

std::vector<std::int64_t> equals_in_turns(const PlanProblem& problem,
                                          std::vector<std::int64_t> order) {
  const std::vector<std::int64_t> bags = bags_of_ranks(problem.topology, problem.ranks);
  const auto work = [&](std::size_t at) { return problem.work.sequence(order[at]); };
  for (std::size_t first = 0, end = 1; first < order.size(); first = end++) {
    while (end < order.size() && work(end) == work(first)) ++end;
    if (end - first > 1) take_turns(std::span(order).subspan(first, end - first), problem, bags);
  }
  return order;
}

}  // namespace

std::vector<std::int64_t> most_work_first(const PlanProblem& problem) {
  constexpr Work kMost = std::numeric_limits<std::int64_t>::max();
  Work largest = 0;
  for (std::int64_t i = 0; i < std::ssize(problem.lengths); ++i) {
    largest = std::max(largest, problem.work.sequence(i));
  }
  return equals_in_turns(problem, largest <= kMost ? sorted_by_work<std::int64_t>(problem)
                                                   : sorted_by_work<Work>(problem));
}

}  // namespace knapformer
