// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/model/transformer.hpp>
#include <knapformer/route/balancer.hpp>
#include <knapformer/train/phase_clock.hpp>
#include <knapformer/train/synthetic.hpp>
#include <optional>
#include <span>
#include <vector>

namespace knapformer {

/// What one rank knows after a step. Times are those of the clock asked for, but for `seconds`.
struct StepOutcome {
  Routing routing;
  PhaseTimes phases;
  double hidden_plan = 0;  ///< seconds in which this step was planned behind the step before
  /// Seconds in which exchanges were under way behind compute: each until it was waited for.
  double hidden_exchange = 0;
  double seconds = 0;  ///< elapsed, of the call
  double loss = 0;     ///< this rank's part of the loss; the loss is the sum over the world
  double flops = 0;    ///< executed here, recomputation included
  std::int64_t bytes_routed = 0;     ///< sent to other ranks by the four exchanges of tokens
  std::int64_t bytes_exchanged = 0;  ///< sent to other ranks around attention
  double speed_estimate = 1;         ///< this rank's in Balancer::speed_estimate()
};

/// Trains a Transformer on a world of balancing groups: data parallel over the world, tokens
/// balanced within each group. The loss is half the mean squared error over all tokens of the world
/// and their elements, so it does not depend on where a token was computed. Double and float.
template <class T>
class Trainer {
 public:
  /// Collective. `balancer` holds this rank's group, a part of `world`. Parameters are drawn from
  /// `seed`, the same on every rank.
  Trainer(Communicator world, Balancer balancer, const TransformerConfig& config,
          std::uint64_t seed, double learning_rate);

  /// Collective over the world: one step of gradient descent. Given the lengths of the next step's
  /// batch, on all ranks or on none, it shares and plans that step while this one computes; that
  /// batch must then come next. A balancer that adapts to speed observes how long this rank was
  /// busy, by `clock`. When the step fails on one rank, it throws Error on all of them, and
  /// neither the world nor its groups are of further use.
  StepOutcome step(const Device& exec, const Batch<T>& batch,
                   std::optional<std::span<const std::int64_t>> next_lengths = {},
                   const ClockOptions& clock = {});

  const Transformer<T>& model() const { return model_; }

 private:
  /// A step that is being planned.
  struct Ahead {
    std::vector<std::int64_t> lengths;
    PendingRouting routing;
    double tokens = 0;  ///< of the world; known when the step before is done
  };

  StepOutcome try_step(const Device& exec, const Batch<T>& batch,
                       std::optional<std::span<const std::int64_t>> next_lengths,
                       const ClockOptions& clock_options);
  Ahead take_ahead(const Batch<T>& batch);
  double forward_and_backward(const Device& exec, const Batch<T>& batch, const Routing& routing,
                              double tokens, PhaseClock& clock);
  void meet();

  Communicator world_;
  Balancer balancer_;
  Transformer<T> model_;
  double learning_rate_;
  Saved<T> saved_;
  std::optional<Ahead> ahead_;
};

}  // namespace knapformer
