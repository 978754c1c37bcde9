// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/model/transformer.hpp>
#include <knapformer/train/loss_mean.hpp>
#include <knapformer/train/memory.hpp>
#include <knapformer/train/phase_clock.hpp>
#include <knapformer/train/synthetic.hpp>
#include <knapformer/train/token_buffers.hpp>

namespace knapformer {

/// What a rank does in one micro-batch.
struct TaskCounts {
  double flops = 0;                  ///< executed, recomputation included
  std::int64_t bytes_routed = 0;     ///< sent to other ranks between home and the blocks
  std::int64_t bytes_exchanged = 0;  ///< sent to other ranks around attention
};

/// A Transformer and what it is trained for: to turn tokens into targets. This and MMDiTTask are
/// what a Trainer can train; they have the same names. Double, float and bfloat16.
template <class T>
class TransformerTask {
 public:
  using Config = TransformerConfig;    ///< of the model
  using Model = Transformer<T>;        ///< what is trained
  using Batch = knapformer::Batch<T>;  ///< a micro-batch of a rank

  /// Throws Error as Transformer does.
  TransformerTask(const Config& config, std::uint64_t seed) : model_(config, seed) {}

  /// See make_synthetic_batch().
  static Batch make_batch(const Device& exec, std::span<const std::int64_t> lengths,
                          const Config& config, std::uint64_t seed, std::int64_t step, int home) {
    return make_synthetic_batch<T>(exec, lengths, config.d_model, seed, step, home);
  }
  /// How many there are in a batch of what counts alike in the loss.
  static double count(const Batch& batch, LossMean mean) { return count_of(mean, batch.lengths); }
  /// What memory() will be for such a micro-batch, and what the group holds then.
  static MemoryUse predicted_memory(const Device& exec, const Config& config, const Batch&,
                                    const Routing& routing) {
    return knapformer::predicted_memory(exec, config, sizeof(T), routing.plan(),
                                        routing.group().rank());
  }

  /// Forward pass, loss and backward pass. Adds to the gradients of this rank in the model, and
  /// returns its part of the loss; both are yet to be divided by what the step counts. Tells
  /// `clock` what it is at. Collective.
  double forward_and_backward(const Device& exec, const Batch& batch, const Routing& routing,
                              LossMean mean, PhaseClock& clock);

  /// Of one forward_and_backward().
  TaskCounts counts(const Batch& batch, const Routing& routing) const;
  /// Bytes held by now, without those of the group.
  MemoryUse memory() const;

  const Model& model() const { return model_; }  ///< with the gradients of all calls

 private:
  Model model_;
  TokenBuffers<T> buffers_;
  Saved<T> saved_;
};

}  // namespace knapformer
