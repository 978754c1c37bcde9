// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "plan/group_work.hpp"

namespace knapformer {

/// Everything in a report but plan_seconds, from the chunks of a valid plan.
PlanReport make_report(const Plan& plan, const GroupWork& work, const Machine& machine,
                       const PlanBounds& bounds);

}  // namespace knapformer
