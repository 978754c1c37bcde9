// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "plan/plan_problem.hpp"

namespace knapformer {

/// A bound that no assignment to these bags can beat, however it shares tokens and heads: the
/// largest load on a rank is at least this.
Work lower_bound(const PlanProblem& problem);

}  // namespace knapformer
