// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/lower_bound.hpp"

#include <algorithm>
#include <map>

namespace knapformer {
namespace {

// The bags of at least a certain degree.
struct LargeBags {
  std::int64_t next_smaller_degree = 0;  // the largest degree not among them, or 0
  std::int64_t count = 0;
  std::int64_t ranks = 0;
};

std::vector<LargeBags> by_degree(const Topology& topology) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const Bag& bag : topology.bags()) ++counts[bag.degree];
  std::vector<LargeBags> out;
  LargeBags bags{0, std::ssize(topology.bags()), topology.ranks()};
  for (const auto& [degree, count] : counts) {
    out.push_back(bags);
    bags = {degree, bags.count - count, bags.ranks - degree * count};
  }
  return out;
}

// Take the first sequences, those with most work. Either one of them goes to a smaller bag, which
// makes a load of at least `in_smaller`, or all of them share the ranks of the large bags. Of bags
// fewer than sequences, some bag gets several, at best the last ones.
Work bound_from(const PlanProblem& problem, const LargeBags& bags, std::int64_t max_degree,
                Work known) {
  std::vector<Work> sums{0};
  Work in_smaller = problem.work.total();
  for (std::int64_t i : problem.order) {
    if (bags.next_smaller_degree > 0) {
      const Work shares = problem.shares(i, bags.next_smaller_degree);
      in_smaller = std::min(in_smaller, divide_up(problem.work.sequence(i), shares));
    }
    if (in_smaller <= known) break;
    sums.push_back(sums.back() + problem.work.sequence(i));
    const std::int64_t taken = std::ssize(sums) - 1;
    Work in_large = 0;
    if (bags.next_smaller_degree > 0) in_large = divide_up(sums.back(), bags.ranks);
    if ((taken - 1) % bags.count == 0) {
      const std::int64_t together = (taken - 1) / bags.count + 1;
      in_large = std::max(in_large, divide_up(sums[taken] - sums[taken - together], max_degree));
    }
    known = std::max(known, std::min(in_smaller, in_large));
  }
  return known;
}

Work fixed_bound(const PlanProblem& problem) {
  std::int64_t max_degree = 1;
  for (const Bag& bag : problem.topology.bags()) max_degree = std::max(max_degree, bag.degree);
  Work bound = divide_up(problem.work.total(), problem.ranks);
  for (std::int64_t i : problem.order) {
    bound = std::max(bound, divide_up(problem.work.sequence(i), problem.shares(i, max_degree)));
  }
  for (const LargeBags& bags : by_degree(problem.topology)) {
    bound = bound_from(problem, bags, max_degree, bound);
  }
  return bound;
}

}  // namespace

double lower_bound(const PlanProblem& problem) {
  if (problem.topology.is_elastic()) return elastic_lower_bound(problem);
  return problem.work.value(fixed_bound(problem));
}

double elastic_lower_bound(const PlanProblem& problem) {
  return problem.work.value(divide_up(problem.work.total(), problem.ranks));
}

}  // namespace knapformer
