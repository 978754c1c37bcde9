// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <optional>

#include "plan/fixed/fixed_bags.hpp"

namespace knapformer {

/// Which bag takes the next sequence. Ties go to the smaller index, but among bags of equal degree
/// and speed to the bag of its home.
enum class GreedyRule {
  kLeastAfterAdding,  ///< whose load per rank is least once it is added
  kLeastOccupied,  ///< whose load per rank is least, of those that can hold it below the mean load
};

/// A bag for every item; none when an item finds no bag with room for it.
std::optional<BagOfItem> greedy(const FixedProblem& problem, GreedyRule rule);

/// The same, but first the items stay home that find their bag below `limit`.
std::optional<BagOfItem> greedy_from_home(const FixedProblem& problem, Ticks limit);

/// The fullest bag of the smallest degree that still has room for the next item. For items in the
/// order of their tokens.
std::optional<BagOfItem> best_fit(const FixedProblem& problem);

/// The chunks that a rule alone leads to, whatever the caps.
Assignment assign(const PlanProblem& problem, GreedyRule rule);

}  // namespace knapformer
