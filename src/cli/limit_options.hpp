// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/plan/planner.hpp>

namespace CLI {
class App;
}

namespace knapformer::cli {

/// What a plan must respect, and how long to search for it; see PlanRequest.
struct PlanLimits {
  std::int64_t max_tokens_per_rank = PlanRequest::kNoCap;
  std::int64_t max_attention_tokens_per_rank = PlanRequest::kNoCap;
  std::int64_t budget = PlanRequest::kDefaultBudget;
};

void add_limit_options(CLI::App& app, PlanLimits& limits);

}  // namespace knapformer::cli
