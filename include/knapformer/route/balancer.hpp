// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/comm/communicator.hpp>
#include <knapformer/plan/planner.hpp>
#include <knapformer/route/routing.hpp>
#include <memory>
#include <span>

namespace knapformer {

struct BalancerOptions {
  Topology topology;
  CostModel cost = CostModel::transformer(3072);
  std::int64_t heads = 1;  ///< attention heads of the model; no bag splits a sequence further
  bool balance = true;     ///< false: everything stays home, through the same code
  Machine machine = {};    ///< what times are predicted for; see PlanRequest for this and the rest
  std::int64_t max_tokens_per_rank = PlanRequest::kNoCap;
  std::int64_t max_attention_tokens_per_rank = PlanRequest::kNoCap;
  std::int64_t plan_budget = PlanRequest::kDefaultBudget;
};

/// Prepares routings for a balancing group. Has no current plan: every Routing stands alone.
class Balancer {
 public:
  /// Collective: ranks that disagree on the options all throw an Error that names the first one
  /// that differs from rank 0. Throws Error when a fixed topology or the speeds of the machine are
  /// not for this many ranks, and for a machine or number of heads out of range.
  Balancer(Communicator group, BalancerOptions options);

  /// Collective. `lengths` are the tokens of each of this rank's sequences, none allowed. `costs`
  /// is empty on every rank, or the work of each sequence, not negative. One all-gather, and
  /// another one when some rank has more sequences than ever before; every rank then makes the same
  /// plan. Invalid numbers on any rank: every rank throws the same Error, which names the rank, the
  /// sequence and the value, and the group stays usable. So it does when the caps cannot be met.
  Routing prepare(std::span<const std::int64_t> lengths,
                  std::span<const std::int64_t> costs = {}) const;

  const Communicator& group() const { return group_; }
  const BalancerOptions& options() const { return options_; }

 private:
  Communicator group_;
  BalancerOptions options_;
  std::shared_ptr<std::int64_t> capacity_;  ///< numbers a rank has room for in the first all-gather
};

}  // namespace knapformer
