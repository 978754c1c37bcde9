// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "plan/fixed/fixed_bags.hpp"

namespace knapformer {

/// Chunks for every sequence: a bag gives as many of its ranks as the sequence has tokens and the
/// model heads, at most all. Shares are in proportion to speed; what is left over goes to the least
/// loaded ranks, or where caps are given to those with most room. The caps themselves may be
/// exceeded, see excess_of.
Assignment share_out(const FixedProblem& problem, const BagOfItem& bag_of);

/// By how many tokens, of either cap, the fullest rank is above it; 0 if none is.
std::int64_t excess_of(const PlanProblem& problem, const Assignment& assignment);

}  // namespace knapformer
