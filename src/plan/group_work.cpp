// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/group_work.hpp"

#include <algorithm>
#include <knapformer/plan/error.hpp>
#include <string>

#include "plan/message.hpp"
#include "plan/require_range.hpp"

namespace knapformer {
namespace {

constexpr std::int64_t kMaxTotalTokens = std::int64_t{1} << 60;
constexpr Work kMaxTotal = Work{1} << 125;

}  // namespace

GroupWork::GroupWork(const CostModel& cost, std::int64_t heads,
                     std::span<const std::int64_t> lengths, std::span<const std::int64_t> costs)
    : cost_(cost), heads_(heads), lengths_(lengths), costs_(costs) {
  require_range("the number of heads", heads, 1, Plan::kMaxHeads);
  if (!costs.empty() && costs.size() != lengths.size()) {
    throw Error(plural(std::ssize(costs), "cost") + " for " +
                plural(std::ssize(lengths), "sequence") + "; give one for each, or none");
  }
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < std::ssize(lengths); ++i) {
    if (lengths[i] < 0 || lengths[i] > CostModel::kMaxLength) {
      require_range("the length of sequence " + std::to_string(i), lengths[i], 0,
                    CostModel::kMaxLength);
    }
    if (!costs.empty() && costs[i] < 0) {
      throw Error("the cost of sequence " + std::to_string(i) + " is " + std::to_string(costs[i]) +
                  "; expected 0 or more");
    }
    tokens += lengths[i];
    const Work work = sequence(i);
    total_ += work;
    largest_ = std::max(largest_, work);
    if (tokens > kMaxTotalTokens || total_ > kMaxTotal) {
      throw Error("up to sequence " + std::to_string(i) + " there are " + plural(tokens, "token") +
                  " and more work in all than can be planned for; check the lengths and costs");
    }
  }
}

Work GroupWork::chunk(std::int64_t i, const Chunk& chunk) const {
  if (!costs_.empty()) {
    return cost_up_to(i, chunk.first_token + chunk.tokens) - cost_up_to(i, chunk.first_token);
  }
  const Work length = lengths_[i];
  return cost_.per_token() * chunk.tokens * heads_ + of_heads(length) * chunk.heads;
}

// The work of the tokens before `token`, rounded down. Division comes first, lest the product
// overflow.
Work GroupWork::cost_up_to(std::int64_t i, std::int64_t token) const {
  const Work whole = sequence(i);
  const Work length = lengths_[i];
  return whole / length * token + whole % length * token / length;
}

GroupWork::TokenAndHead GroupWork::token_and_head(std::int64_t i) const {
  const Work length = lengths_[i];
  if (!costs_.empty()) return {value(sequence(i)) / static_cast<double>(length), 0};
  return {value(cost_.per_token() * heads_), value(of_heads(length))};
}

// 64 bits, which most work fits into, are converted faster.
double GroupWork::value(Work work) const {
  const auto low = static_cast<std::int64_t>(work);
  const double units = low == work ? static_cast<double>(low) : static_cast<double>(work);
  return units / static_cast<double>(heads_ * CostModel::kUnitsPerOne);
}

}  // namespace knapformer
