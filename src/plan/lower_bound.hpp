// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "plan/plan_problem.hpp"

namespace knapformer {

/// A bound that no assignment to the bags of the topology can beat, however it shares tokens and
/// heads: the largest load on a rank, work over speed in units of the formula, is at least this.
double lower_bound(const PlanProblem& problem);

/// The same for any bags at all.
double elastic_lower_bound(const PlanProblem& problem);

}  // namespace knapformer
