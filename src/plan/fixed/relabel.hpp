// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "plan/fixed/fixed_bags.hpp"

namespace knapformer {

/// Bags of a kind are interchangeable, and so are sequences of equal length and work: permutes both
/// so that most tokens stay in the bag they live in, then in its node. No bag's work changes.
void relabel(const FixedProblem& problem, BagOfItem& bag_of);

}  // namespace knapformer
