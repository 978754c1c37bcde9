// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "plan/plan_problem.hpp"

namespace knapformer {

/// Bounds that no assignment can beat, however it shares tokens and heads: the largest load on a
/// rank, work over speed in units of the formula, is at least this.
PlanBounds lower_bounds(const PlanProblem& problem);

}  // namespace knapformer
