// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/route/balancer.hpp>
#include <knapformer/train/loss_mean.hpp>
#include <knapformer/train/memory.hpp>
#include <knapformer/train/mmdit_task.hpp>
#include <knapformer/train/phase_clock.hpp>
#include <knapformer/train/transformer_task.hpp>
#include <optional>
#include <span>
#include <vector>

namespace knapformer {

/// What one rank knows after a step. Times are those of the clock asked for, but for `seconds`.
struct StepOutcome {
  std::vector<Routing> routings;  ///< one for each micro-batch
  PhaseTimes phases;              ///< of this rank
  /// Seconds in which this step was planned: its first micro-batch behind the step before, each
  /// other one behind the one before it.
  double hidden_plan = 0;
  /// Seconds in which exchanges were under way behind compute: each until it was waited for.
  double hidden_exchange = 0;
  double seconds = 0;  ///< elapsed, of the call
  double loss = 0;     ///< this rank's part of the loss; the loss is the sum over the world
  double flops = 0;    ///< executed here, recomputation included
  std::int64_t bytes_routed = 0;     ///< sent to other ranks between home and the blocks
  std::int64_t bytes_exchanged = 0;  ///< sent to other ranks around attention
  MemoryUse memory;                  ///< held after the step, see Trainer::memory()
  double speed_estimate = 1;         ///< this rank's in Balancer::speed_estimate()
};

/// The same on all ranks.
struct TrainerOptions {
  std::uint64_t seed = 0;                  ///< of the parameters
  double learning_rate = 0.01;             ///< of gradient descent
  std::int64_t micro_batches = 1;          ///< of each step, on every rank, at least 1
  LossMean loss_mean = LossMean::kTokens;  ///< what counts alike in the loss
};

/// Trains a Transformer, or an MMDiT (MMDiTTask), on a world of balancing groups: data parallel
/// over the world, tokens balanced within each group. A step sums the gradients of its
/// micro-batches, each of which has a routing of its own. The loss is half the mean squared error
/// over the tokens of the whole step, see LossMean, and their elements: it does not depend on where
/// a token was computed, nor in which micro-batch. Double, float and bfloat16.
template <class T, template <class> class Task = TransformerTask>
class Trainer {
 public:
  using Config = typename Task<T>::Config;  ///< of the model
  using Model = typename Task<T>::Model;    ///< what is trained
  using Batch = typename Task<T>::Batch;    ///< what a rank loads

  /// Collective. `balancer` holds this rank's group, a part of `world`. Throws Error on all ranks
  /// when their options differ, or for fewer than one micro-batch.
  Trainer(Communicator world, Balancer balancer, const Config& config,
          const TrainerOptions& options);

  /// Collective over the world: one step of gradient descent on options().micro_batches batches,
  /// any of which may be empty on any rank. While one computes, the next one is shared and planned;
  /// given the lengths of the first one of the next step, on all ranks or on none, so is that: it
  /// must then come next. Nothing is allocated in Kokkos spaces once the sizes have been there; a
  /// plan and the lists made from it are new host memory every time. A balancer that adapts to
  /// speed observes how long this rank was busy, by `clock`. When the step fails on one rank, it
  /// throws Error on all of them, and neither the world nor its groups are of further use.
  StepOutcome step(const Device& exec, std::span<const Batch> micro_batches,
                   std::optional<std::span<const std::int64_t>> next_lengths = {},
                   const ClockOptions& clock = {});
  /// The same for a step of one micro-batch.
  StepOutcome step(const Device& exec, const Batch& batch,
                   std::optional<std::span<const std::int64_t>> next_lengths = {},
                   const ClockOptions& clock = {}) {
    return step(exec, std::span(&batch, 1), next_lengths, clock);
  }

  /// Bytes that this rank holds by now. Its group's buffers count in full, whoever uses them beside
  /// this Trainer; a batch is the caller's and does not count.
  MemoryUse memory() const;

  const TrainerOptions& options() const { return options_; }  ///< as given
  /// After a step its gradients are those of the loss, summed over the world.
  const Model& model() const { return task_.model(); }

 private:
  /// A micro-batch that is being planned.
  struct Ahead {
    std::vector<std::int64_t> lengths;
    PendingRouting routing;
  };

  StepOutcome try_step(const Device& exec, std::span<const Batch> micro_batches,
                       std::optional<std::span<const std::int64_t>> next_lengths,
                       const ClockOptions& clock_options);
  void plan_ahead(std::span<const std::int64_t> lengths);
  Routing take_ahead(const Batch& batch);
  double meet(double count);
  void descend(const Device& exec, double world_count, PhaseClock& clock);
  void report(std::span<const Batch> micro_batches, StepOutcome& outcome) const;

  Communicator world_;
  Balancer balancer_;
  Task<T> task_;
  TrainerOptions options_;
  std::optional<Ahead> ahead_;
};

}  // namespace knapformer
