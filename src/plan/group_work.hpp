// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/plan/plan.hpp>
#include <span>

namespace knapformer {

/// a / b rounded up; a is not negative, b is positive.
inline Work divide_up(Work a, Work b) { return (a + b - 1) / b; }

/// The work of a group's sequences and of their chunks. Everything is multiplied by the number of
/// heads, so that a share of the heads is an integer too, and every sum is exact.
class GroupWork {
 public:
  /// `costs` is empty, or replaces the model. The spans must outlive this object. Throws Error when
  /// the numbers are out of range, or so large that 128 bits could not hold their sums.
  GroupWork(const CostModel& cost, std::int64_t heads, std::span<const std::int64_t> lengths,
            std::span<const std::int64_t> costs);

  Work sequence(std::int64_t i) const {
    const Work length = lengths_[i];
    if (length == 0) return 0;
    if (!costs_.empty()) return Work{costs_[i]} * CostModel::kUnitsPerOne * heads_;
    return (of_heads(length) + cost_.per_token() * length) * heads_;
  }

  /// The chunks that tile a sequence have its work in sum.
  Work chunk(std::int64_t i, const Chunk& chunk) const;

  /// What sequence i, which is not empty, costs per token and per head of a chunk, in the units of
  /// value().
  struct TokenAndHead {
    double token;
    double head;
  };
  TokenAndHead token_and_head(std::int64_t i) const;

  Work total() const { return total_; }
  Work largest() const { return largest_; }
  const CostModel& cost() const { return cost_; }

  /// In the units of the cost model's formula, or of the caller's costs.
  double value(Work work) const;

 private:
  // What goes with the heads that a rank computes, for all of them over their number.
  Work of_heads(Work length) const {
    return cost_.per_sequence() + cost_.per_token_pair() * length * length;
  }
  Work cost_up_to(std::int64_t i, std::int64_t token) const;

  CostModel cost_;
  std::int64_t heads_;
  std::span<const std::int64_t> lengths_;
  std::span<const std::int64_t> costs_;
  Work total_ = 0;
  Work largest_ = 0;
};

}  // namespace knapformer
