// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan_problem.hpp"

namespace knapformer {

/// Sequences with tokens, from the most work to the least. Equals take turns between the bags they
/// live in, so that a group that is balanced already finds every home free and stays there.
class WorkOrder {
 public:
  explicit WorkOrder(const PlanProblem& problem);

  std::vector<std::int64_t> all() const { return of(0, std::ssize(problem_.lengths)); }
  /// Those with more work than `above`.
  std::vector<std::int64_t> with_more_than(Work above) const {
    return of(0, std::ssize(problem_.lengths), above);
  }
  /// Those in [first, end), which are all of some bags.
  std::vector<std::int64_t> of(std::int64_t first, std::int64_t end, Work above = -1) const;

 private:
  template <class Number>
  struct Key {
    Number less_work;
    std::int64_t sequence;
    auto operator<=>(const Key&) const = default;
  };
  template <class Number>
  std::vector<std::int64_t> sorted(std::int64_t first, std::int64_t end, Work above) const;
  template <class Number>
  void take_turns(std::span<Key<Number>> equals) const;
  std::int64_t bag_of(std::int64_t i) const {
    return bags_.empty() ? problem_.homes[i] : bags_[problem_.homes[i]];
  }

  const PlanProblem& problem_;
  std::vector<std::int64_t> bags_;  // the first rank of every rank's; empty if each is its own
};

}  // namespace knapformer
