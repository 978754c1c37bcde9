// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/plan_problem.hpp"

#include <algorithm>
#include <numeric>

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

}  // namespace

std::vector<std::int64_t> most_work_first(const PlanProblem& problem) {
  struct Key {
    Work less_work;
    std::int64_t turn;
    std::int64_t sequence;
    auto operator<=>(const Key&) const = default;
  };
  std::vector<Key> keys;
  keys.reserve(problem.lengths.size());
  for (std::int64_t i = 0; i < std::ssize(problem.lengths); ++i) {
    if (problem.lengths[i] > 0) keys.push_back({-problem.work.sequence(i), 0, i});
  }
  std::ranges::sort(keys);
  const std::vector<std::int64_t> bags = bags_of_ranks(problem.topology, problem.ranks);
  const auto bag = [&](const Key& key) { return bags[problem.homes[key.sequence]]; };
  bool take_turns = false;
  for (std::size_t k = 1; k < keys.size(); ++k) {
    const Key& last = keys[k - 1];
    if (keys[k].less_work != last.less_work || bag(keys[k]) != bag(last)) continue;
    keys[k].turn = last.turn + 1;
    take_turns = true;
  }
  if (take_turns) std::ranges::sort(keys);
  std::vector<std::int64_t> order(keys.size());
  std::ranges::transform(keys, order.begin(), &Key::sequence);
  return order;
}

}  // namespace knapformer
