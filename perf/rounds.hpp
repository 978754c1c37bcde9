// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <functional>
#include <vector>

namespace knapformer::perf {

/// Something that all ranks do together.
using Contender = std::function<void()>;

/// Medians over the rounds. A time is that of the slowest rank.
struct Comparison {
  std::vector<double> seconds;  ///< of each contender
  std::vector<double> ratios;   ///< of the time of the first to that of each, within a round
};

/// Collective. In each round every contender runs once, from a barrier on, after a `prepare` that
/// is not timed. The first two come in alternating order, the others after them. Two rounds more
/// come first and are not counted.
Comparison compare(
    const std::vector<Contender>& contenders, int rounds, const Contender& prepare = [] {});

}  // namespace knapformer::perf
