// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/lower_bound.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "plan/work_order.hpp"

namespace knapformer {
namespace {

// Speeds as integers that are never too small, so that a load is never too large. Ranks of speed 1
// are counted.
class Capacities {
 public:
  Capacities(const Machine& machine, std::int64_t ranks)
      : scale_(machine.speeds.empty() ? 1 : std::int64_t{1} << 28) {
    of_rank_.assign(ranks, 1);
    for (std::size_t r = 0; r < machine.speeds.size(); ++r) {
      of_rank_[r] =
          static_cast<std::int64_t>(std::ceil(machine.speeds[r] * static_cast<double>(scale_)));
    }
  }

  std::span<const std::int64_t> of_ranks() const { return of_rank_; }
  bool exact() const { return scale_ == 1; }

  // At most the load on ranks of this capacity in sum, when they share `work` at best.
  Work load(Work work, std::int64_t capacity) const {
    if (exact()) return divide_up(work, capacity);
    constexpr Work kLargest = Work{1} << 98;
    return std::min(work / capacity, kLargest) * scale_ + work % capacity * scale_ / capacity;
  }

  // No more than ranks of this capacity do in sum when each has this load.
  Work work(Work load, std::int64_t capacity) const { return load / scale_ * capacity; }

 private:
  std::int64_t scale_;
  std::vector<std::int64_t> of_rank_;
};

// sums[n]: of the n largest.
std::vector<std::int64_t> sums_of_largest(std::span<const std::int64_t> values) {
  std::vector<std::int64_t> sums(values.begin(), values.end());
  std::ranges::sort(sums, std::greater());
  std::int64_t sum = 0;
  for (std::int64_t& value : sums) value = sum += value;
  sums.insert(sums.begin(), 0);
  return sums;
}

// A set of bags: all above a certain capacity.
struct LargeBags {
  std::int64_t next_smaller = 0;  // the largest capacity and degree not among them, or 0
  std::int64_t next_smaller_degree = 0;
  std::int64_t count = 0;
  std::int64_t capacity = 0;  // of all together
};

class Bound {
 public:
  explicit Bound(const PlanProblem& problem)
      : problem_(problem), speeds_(problem.machine, problem.ranks) {
    fastest_ = sums_of_largest(speeds_.of_ranks());
    known_ = speeds_.load(problem.work.total(), fastest_.back());
  }

  double value() const {
    const double value = problem_.work.value(known_);
    // Speeds are divided by in floating point elsewhere; stay below what that may lose.
    return speeds_.exact() ? value : value * (1 - 0x1p-50);
  }

  // For bags of at most so many ranks, any ranks.
  void any_bags(std::int64_t max_degree) {
    widest_first(max_degree);
    // Where nothing is ever split, the ranks are the bags.
    if (std::min({max_degree, problem_.heads, problem_.ranks}) == 1) {
      several_in_a_bag({0, 0, problem_.ranks, fastest_.back()}, fastest_[1], all());
    }
  }

  void bags_of(const Topology& topology) {
    std::vector<Large> bags;
    for (const Bag& bag : topology.bags()) bags.push_back({capacity_of(bag), bag.degree});
    std::ranges::sort(bags);
    one_sequence(topology);
    few_bags(bags);
    for (const LargeBags& large : sets_of(bags)) {
      several_in_a_bag(large, bags.back().capacity, problem_.order);
    }
  }

 private:
  struct Large {
    std::int64_t capacity;
    std::int64_t degree;
    auto operator<=>(const Large&) const = default;
  };

  std::int64_t capacity_of(const Bag& bag) const {
    const auto ranks = speeds_.of_ranks().subspan(bag.first_rank, bag.degree);
    std::int64_t sum = 0;
    for (std::int64_t speed : ranks) sum += speed;
    return sum;
  }

  std::vector<std::int64_t> all() const {
    return problem_.order.empty() ? WorkOrder(problem_).all() : problem_.order;
  }

  // With more work than the fastest rank alone can do.
  std::vector<std::int64_t> longest() const {
    return WorkOrder(problem_).with_more_than(speeds_.work(known_, fastest_[1]));
  }

  void raise(Work bound) { known_ = std::max(known_, bound); }

  // The k sequences with most work cannot occupy more ranks than k bags have.
  void widest_first(std::int64_t max_degree) {
    Work sum = 0;
    std::int64_t ranks = 0;
    for (std::int64_t i : longest()) {
      const std::int64_t shares = problem_.shares(i, std::min(max_degree, problem_.ranks));
      if (speeds_.load(problem_.work.sequence(i), fastest_[1]) <= known_) break;
      raise(speeds_.load(problem_.work.sequence(i), fastest_[shares]));
      sum += problem_.work.sequence(i);
      ranks = std::min(ranks + shares, problem_.ranks);
      raise(speeds_.load(sum, fastest_[ranks]));
    }
  }

  // A sequence is shared by ranks of one bag, no more than it has tokens and heads.
  void one_sequence(const Topology& topology) {
    std::vector<std::int64_t> best{0};  // of n ranks of a bag
    std::vector<std::int64_t> seen;
    for (const Bag& bag : topology.bags()) {
      // Without speeds all bags of a degree are alike.
      if (speeds_.exact() && bag.degree < std::ssize(best)) continue;
      const auto sums = sums_of_largest(speeds_.of_ranks().subspan(bag.first_rank, bag.degree));
      if (sums.size() > best.size()) best.resize(sums.size(), 0);
      for (std::size_t n = 0; n < sums.size(); ++n) best[n] = std::max(best[n], sums[n]);
    }
    for (std::size_t n = 1; n < best.size(); ++n) best[n] = std::max(best[n], best[n - 1]);
    for (std::int64_t i : problem_.order) {
      const Work work = problem_.work.sequence(i);
      if (speeds_.load(work, best[1]) <= known_) break;
      raise(speeds_.load(work, best[problem_.shares(i, std::ssize(best) - 1)]));
    }
  }

  // The k sequences with most work are in at most k bags.
  void few_bags(const std::vector<Large>& bags) {
    Work sum = 0;
    std::int64_t capacity = 0;
    std::int64_t k = std::ssize(bags);
    for (std::int64_t i : problem_.order) {
      if (k == 0) break;
      sum += problem_.work.sequence(i);
      capacity += bags[--k].capacity;
      raise(speeds_.load(sum, capacity));
    }
  }

  // Thinned out when there are many capacities: each costs a pass over the sequences.
  std::vector<LargeBags> sets_of(const std::vector<Large>& bags) const {
    constexpr std::size_t kMostSets = 16;
    std::vector<LargeBags> sets;
    LargeBags large{0, 0, std::ssize(bags), fastest_.back()};
    for (const Large& bag : bags) {
      if (bag.capacity != large.next_smaller) sets.push_back(large);
      large = {bag.capacity, std::max(large.next_smaller_degree, bag.degree), large.count - 1,
               large.capacity - bag.capacity};
    }
    if (sets.size() <= kMostSets) return sets;
    std::vector<LargeBags> some;
    for (std::size_t n = 0; n < kMostSets; ++n) {
      some.push_back(sets[n * sets.size() / kMostSets]);
    }
    return some;
  }

  // Take the first sequences, those with most work. Either one of them goes to a smaller bag, which
  // makes a load of at least `in_smaller`, or all of them share the ranks of the large bags. Of
  // bags fewer than sequences, some bag gets several, at best the last ones.
  void several_in_a_bag(const LargeBags& bags, std::int64_t largest_capacity,
                        std::span<const std::int64_t> order) {
    std::vector<Work> sums{0};
    Work in_smaller = 0;
    for (std::int64_t i : order) {
      if (bags.next_smaller > 0) {
        const std::int64_t shares = problem_.shares(i, bags.next_smaller_degree);
        const std::int64_t capacity = std::min(bags.next_smaller, fastest_[shares]);
        const Work alone = speeds_.load(problem_.work.sequence(i), capacity);
        in_smaller = sums.size() == 1 ? alone : std::min(in_smaller, alone);
        if (in_smaller <= known_) break;
      }
      sums.push_back(sums.back() + problem_.work.sequence(i));
      const std::int64_t taken = std::ssize(sums) - 1;
      Work in_large = 0;
      if (bags.next_smaller > 0) in_large = speeds_.load(sums.back(), bags.capacity);
      if ((taken - 1) % bags.count == 0) {
        const std::int64_t together = (taken - 1) / bags.count + 1;
        in_large = std::max(in_large,
                            speeds_.load(sums[taken] - sums[taken - together], largest_capacity));
      }
      raise(bags.next_smaller > 0 ? std::min(in_smaller, in_large) : in_large);
    }
  }

  const PlanProblem& problem_;
  Capacities speeds_;
  std::vector<std::int64_t> fastest_;  // the capacity of the n fastest ranks
  Work known_ = 0;
};

}  // namespace

PlanBounds lower_bounds(const PlanProblem& problem) {
  const Topology& topology = problem.topology;
  Bound any(problem);
  any.any_bags(problem.ranks);
  if (topology.max_degree() >= problem.ranks) return {any.value(), any.value()};
  Bound given(problem);
  if (topology.is_elastic()) {
    given.any_bags(topology.max_degree());
  } else {
    given.any_bags(std::ranges::max(topology.bags(), {}, &Bag::degree).degree);
    given.bags_of(topology);
  }
  return {.topology = given.value(), .elastic = any.value()};
}

}  // namespace knapformer
