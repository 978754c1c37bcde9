// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace knapformer {

/// What counts alike in the loss of a step: every token of the world, or every sequence that has
/// tokens, whose own loss is the mean over them.
enum class LossMean { kTokens, kSamples };

/// "tokens" or "samples".
constexpr std::string_view name_of(LossMean mean) {
  return mean == LossMean::kTokens ? "tokens" : "samples";
}

/// How many there are in sequences of these lengths.
constexpr double count_of(LossMean mean, std::span<const std::int64_t> lengths) {
  double count = 0;  // bad lengths, which are found elsewhere, may have any sum
  for (const std::int64_t length : lengths) {
    if (length > 0) count += mean == LossMean::kTokens ? static_cast<double>(length) : 1;
  }
  return count;
}

/// The weight of each token of a sequence of `length` tokens.
constexpr double token_weight(LossMean mean, std::int64_t length) {
  return mean == LossMean::kTokens ? 1 : 1 / static_cast<double>(length);
}

}  // namespace knapformer
