// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "knapformer/plan/error.hpp"
#include "plan/message.hpp"

namespace knapformer {

/// With CostModel::kMaxLength tokens each, the tokens of a rank still fit an int64.
constexpr std::int64_t kMaxSamplesPerRank = std::int64_t{1} << 20;

inline void check_ranks(std::int64_t ranks) {
  constexpr std::int64_t kMaxRanks = std::int64_t{1} << 31;
  if (ranks >= 1 && ranks <= kMaxRanks) return;
  throw Error(fmt::format("samples cannot be dealt to {} ranks; give 1 to {}", ranks, kMaxRanks));
}

inline void check_step_and_rank(std::int64_t step, std::int64_t rank, std::int64_t ranks) {
  if (step < 0) throw Error(fmt::format("step {}: steps count from 0", step));
  if (rank < 0 || rank >= ranks) {
    throw Error(fmt::format("rank {}: samples are dealt to {}, counted from 0", rank,
                            plural(ranks, "rank")));
  }
}

}  // namespace knapformer
