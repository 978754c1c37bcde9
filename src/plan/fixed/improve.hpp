// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "plan/fixed/fixed_bags.hpp"

namespace knapformer {

/// Moves items between bags, and swaps them, the slowest bag first, so that the largest time of a
/// bag falls; never lets it grow. Takes what it tries from `budget`.
void improve(const FixedProblem& problem, BagOfItem& bag_of, std::int64_t& budget);

/// Moves and swaps items so that more tokens are in the bag they live in, while the largest time
/// of a bag does not grow.
void send_home(const FixedProblem& problem, BagOfItem& bag_of, std::int64_t& budget);

/// The largest time of a bag, without routing.
Ticks largest_unrouted(const FixedProblem& problem, const BagOfItem& bag_of);

}  // namespace knapformer
