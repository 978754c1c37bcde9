// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/model/transformer.hpp>
#include <knapformer/route/balancer.hpp>
#include <knapformer/train/phase_clock.hpp>
#include <knapformer/train/synthetic.hpp>

namespace knapformer {

/// What one rank knows after a step.
struct StepOutcome {
  Routing routing;
  PhaseClock clock;
  double seconds = 0;  ///< elapsed, from the common start of the step
  double loss = 0;     ///< this rank's part of the loss; the loss is the sum over the world
  double flops = 0;    ///< executed here, recomputation included
  std::int64_t bytes_routed = 0;     ///< sent to other ranks by the four exchanges of tokens
  std::int64_t bytes_exchanged = 0;  ///< sent to other ranks around attention
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

  /// Collective over the world: one step of gradient descent. When it fails on one rank, it throws
  /// Error on all of them, and neither the world nor its groups are of further use.
  StepOutcome step(const Device& exec, const Batch<T>& batch, ClockKind clock = ClockKind::kWall);

  const Transformer<T>& model() const { return model_; }

 private:
  StepOutcome try_step(const Device& exec, const Batch<T>& batch, ClockKind clock);

  Communicator world_;
  Balancer balancer_;
  Transformer<T> model_;
  double learning_rate_;
  Saved<T> saved_;
};

}  // namespace knapformer
