// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/fixed/step_ticks.hpp"

namespace knapformer {

/// A bag of a fixed topology, seen as one worker that takes whole sequences.
struct FixedBag {
  std::int64_t first_rank = 0;
  std::int64_t degree = 1;
  std::int64_t inverse = 0;             ///< of the speed of its ranks in sum, see StepTicks
  Ticks attention_row = 0;              ///< for each token of its sequences
  std::array<Ticks, 3> route_row = {};  ///< the same, for homes in the bag, its node, and beyond
  Ticks peers = 0;                      ///< unless it has no sequence
  Ticks base = 0;                       ///< in any case, see charge_senders
  std::int64_t room = 0;                ///< tokens below the caps
  std::int64_t node = 0;                ///< of its first rank
  std::int64_t kind = 0;                ///< bags of a kind are interchangeable
};

/// A sequence with tokens.
struct FixedItem {
  Ticks ticks = 0;  ///< at speed 1
  std::int64_t tokens = 0;
  std::int64_t sequence = 0;
  std::int64_t home_bag = 0;
  std::int64_t home_node = 0;
};

/// For every item, in their order, its bag.
using BagOfItem = std::vector<std::int64_t>;

/// A problem of a fixed topology in terms of bags: the ranks of a bag share its sequences in
/// proportion to their speeds, so a bag's time is about a sum over its sequences.
class FixedProblem {
 public:
  explicit FixedProblem(const PlanProblem& problem);

  const PlanProblem& problem;
  StepTicks ticks;
  std::vector<FixedBag> bags;
  std::vector<FixedItem> items;  ///< from the most work to the least
  bool capped = false;

  Ticks compute(const FixedItem& item, const FixedBag& bag) const {
    return StepTicks::shared(item.ticks, bag.inverse);
  }

  Ticks fair = 0;  ///< of every rank, if all work is spread in proportion to speed

  /// What an item adds to the time of a bag.
  Ticks cost(const FixedItem& item, std::int64_t bag) const {
    const FixedBag& to = bags[bag];
    const int from = item.home_bag == bag ? 0 : item.home_node == to.node ? 1 : 2;
    return compute(item, to) + item.tokens * (to.attention_row + to.route_row[from]);
  }

  /// Of one rank when an item is alone in a bag.
  Ticks alone(const FixedItem& item, const FixedBag& bag) const {
    const std::int64_t shares = problem.shares(item.sequence, bag.degree);
    const Ticks all = compute(item, bag);
    return shares == bag.degree ? all : static_cast<Ticks>(Work{all} * bag.degree / shares);
  }

  /// Whether an empty bag of this degree holds the item below the caps.
  bool holds(const FixedItem& item, std::int64_t degree) const;

  /// The same problem with tokens for work and nothing else to pay, from the most tokens to the
  /// least.
  FixedProblem by_tokens() const;

 private:
  // A rank exchanges as long as the larger of what it sends and receives takes. So bags that have
  // more work at home than is fair pay for what they send: all they have, less what stays; the
  // others for what they receive.
  void charge_senders();
};

}  // namespace knapformer
