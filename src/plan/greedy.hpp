// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan_problem.hpp"

namespace knapformer {

/// Which bag takes the next sequence. Ties go to the smaller index, but among bags of equal degree
/// to the bag of its home.
enum class GreedyRule {
  kLeastAfterAdding,  ///< whose load per rank is least once it is added
  kLeastOccupied,  ///< whose load per rank is least, of those that can hold it below the mean load
};

/// Chunks for every sequence, and what they lead to.
struct Assignment {
  std::vector<std::int64_t> chunk_offsets;
  std::vector<Chunk> chunks;
  Work largest_load = 0;
  std::int64_t moved_tokens = 0;
};

Assignment assign(const PlanProblem& problem, GreedyRule rule);

}  // namespace knapformer
