// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/plan/plan.hpp>
#include <span>
#include <vector>

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

  Work sequence(std::int64_t i) const { return sequences_[i]; }

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
  const CostModel& cost() const { return cost_; }

  /// In the units of the cost model's formula, or of the caller's costs.
  double value(Work work) const;

 private:
  Work of_sequence(std::int64_t i) const;
  Work cost_up_to(std::int64_t i, std::int64_t token) const;

  CostModel cost_;
  std::int64_t heads_;
  std::span<const std::int64_t> lengths_;
  std::span<const std::int64_t> costs_;
  std::vector<Work> sequences_;
  Work total_ = 0;
};

}  // namespace knapformer
