// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/elastic.hpp"

namespace knapformer {

Assignment assign_elastic(const PlanProblem& problem) {
  const Topology singles = Topology::singles(problem.ranks);
  PlanProblem fixed{singles,         problem.ranks,      problem.machine,
                    problem.work,    problem.heads,      problem.homes,
                    problem.lengths, problem.max_tokens, problem.max_attention_tokens,
                    problem.budget,  problem.order};
  return assign(fixed, GreedyRule::kLeastAfterAdding);
}

}  // namespace knapformer
