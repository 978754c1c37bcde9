// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/comm/communicator.hpp>
#include <knapformer/plan/planner.hpp>
#include <knapformer/route/routing.hpp>
#include <memory>
#include <span>
#include <vector>

namespace knapformer {

/// What to balance, how, and on which machine. The same on all ranks.
struct BalancerOptions {
  Topology topology;  ///< which bags exist
  CostModel cost =
      CostModel::transformer(3072);  ///< of a sequence, where prepare() is given no costs
  /// Attention heads of the model, those of keys and values where several query heads share them
  /// (GQA); no bag splits a sequence further.
  std::int64_t heads = 1;
  bool balance = true;   ///< false: everything stays home, through the same code
  Machine machine = {};  ///< what times are predicted for; see PlanRequest for this and the rest
  std::int64_t max_tokens_per_rank = PlanRequest::kNoCap;  ///< that a plan gives any rank
  std::int64_t max_attention_tokens_per_rank =
      PlanRequest::kNoCap;  ///< the same in attention: length times share of the heads
  std::int64_t plan_budget =
      PlanRequest::kDefaultBudget;  ///< changes tried in search of a better plan

  /// Plan for the speeds that Balancer::observe() has shown instead of machine.speeds, of which
  /// the mean alone then counts.
  bool adapt_to_speed = false;
  /// Where the estimate starts: empty for machine.speeds, or what an earlier Balancer's
  /// speed_estimate() returned, from a checkpoint say.
  std::vector<double> speed_estimate = {};
};

/// A routing that is being prepared. Movable, not copyable. All ranks wait for it, or all abandon
/// it, which holds nothing up.
class PendingRouting {
 public:
  PendingRouting(PendingRouting&&) noexcept;
  PendingRouting& operator=(PendingRouting&&) noexcept;
  ~PendingRouting();

  /// Collective, once. Returns or throws what Balancer::prepare does. The time that it was under
  /// way before is added to group().times().hidden.
  Routing wait();

  struct State;

 private:
  friend class Balancer;
  explicit PendingRouting(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Prepares routings for a balancing group. Has no current plan: every Routing stands alone. Copies
/// share what they learn.
class Balancer {
 public:
  /// Collective: ranks that disagree on the options all throw an Error that names the first one
  /// that differs, and the fewer ranks that have it so. Throws Error when a fixed topology, the
  /// speeds of the machine or the speed estimate are not for this many ranks, and for a machine,
  /// number of heads or estimate out of range.
  Balancer(Communicator group, BalancerOptions options);

  /// Collective. `lengths` are the tokens of each of this rank's sequences, none allowed. `costs`
  /// is empty on every rank, or the work of each sequence, not negative. One all-gather, and
  /// another one when some rank has more sequences than ever before; every rank then makes the same
  /// plan. Invalid numbers on any rank: every rank throws the same Error, which names the rank, the
  /// sequence and the value, and the group stays usable. So it does when the caps cannot be met,
  /// and when ranks prepare with Balancers of different options.
  Routing prepare(std::span<const std::int64_t> lengths,
                  std::span<const std::int64_t> costs = {}) const;

  /// Collective: the same, started. Copies its arguments. The all-gather goes on while this rank
  /// does something else, and when the communicator is next used after it is complete, a thread
  /// makes the plan meanwhile. (Where MPI was initialised for a single thread, wait() makes it.)
  PendingRouting start_prepare(std::span<const std::int64_t> lengths,
                               std::span<const std::int64_t> costs = {}) const;

  /// Not collective: this rank was busy for so many seconds (waiting for others not counted) with
  /// the work that `routing` gave it. Several are added up. Tells the others with the next
  /// start_prepare() or prepare(); the plans started after that one was waited for know it. Throws
  /// Error for a routing of another group size and for seconds that are negative or not finite.
  void observe(const Routing& routing, double busy_seconds) const;

  /// How fast each rank is, by what was observed up to the last routing waited for: work over busy
  /// time, exponentially weighted, with a mean of 1. The same on every rank.
  std::vector<double> speed_estimate() const;

  /// The ranks that it balances.
  const Communicator& group() const { return group_; }
  /// As given.
  const BalancerOptions& options() const { return *options_; }

  struct Learnt;

 private:
  Communicator group_;
  std::shared_ptr<const BalancerOptions> options_;
  std::shared_ptr<Learnt> learnt_;
};

}  // namespace knapformer
