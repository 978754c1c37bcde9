// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/plan/plan.hpp>

namespace knapformer::perf {

/// Heads of the plans below: at least 16, as many on every rank.
std::int64_t uniform_heads(std::int64_t ranks);

/// Every rank is home to `sequences` equal sequences of `rows` rows together, which go to all ranks
/// in turn, itself included. `sequences` is a multiple of `ranks`, and `rows` one of `sequences`.
Plan scatter_plan(std::int64_t ranks, std::int64_t sequences, std::int64_t rows);

/// `sequences` equal sequences that all ranks compute together, with as many tokens and heads on
/// each: `rows` rows a rank. `rows` is a multiple of `sequences`.
Plan shared_plan(std::int64_t ranks, std::int64_t sequences, std::int64_t rows);

}  // namespace knapformer::perf
