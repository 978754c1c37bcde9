// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/limit_options.hpp"

#include <CLI/CLI.hpp>

namespace knapformer::cli {

void add_limit_options(CLI::App& app, PlanLimits& limits) {
  const CLI::Range not_negative(std::int64_t{0}, PlanRequest::kNoCap, "not negative");
  CLI::App* group = app.add_option_group("Limits", "of the plan");
  group
      ->add_option("--max-tokens-per-rank", limits.max_tokens_per_rank,
                   "refuse plans that give a rank more tokens (default: no cap)")
      ->check(not_negative)
      ->option_text("INT");
  group
      ->add_option("--max-attention-tokens-per-rank", limits.max_attention_tokens_per_rank,
                   "the same for attention: length times share of the heads (default: no cap)")
      ->check(not_negative)
      ->option_text("INT");
  group
      ->add_option("--plan-budget", limits.budget,
                   "changes to try in search of a better plan, 0 for the first one found "
                   "(default: a few per sequence)")
      ->check(not_negative)
      ->option_text("INT");
}

}  // namespace knapformer::cli
