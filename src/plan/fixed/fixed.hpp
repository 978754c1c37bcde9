// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "plan/assignment.hpp"
#include "plan/plan_problem.hpp"

namespace knapformer {

/// Chunks for every sequence in the bags of a fixed topology. Throws Error when the caps cannot be
/// met, or no plan that meets them was found.
Assignment assign_fixed(const PlanProblem& problem);

}  // namespace knapformer
