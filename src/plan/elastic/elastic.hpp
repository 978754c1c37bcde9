// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "plan/assignment.hpp"
#include "plan/plan_problem.hpp"

namespace knapformer {

/// A bag for every sequence, as small as balance allows. Throws Error when the caps cannot be met.
Assignment assign_elastic(const PlanProblem& problem);

}  // namespace knapformer
