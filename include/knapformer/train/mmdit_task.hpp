// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/model/mmdit.hpp>
#include <knapformer/train/transformer_task.hpp>
#include <span>
#include <vector>

namespace knapformer {

/// One rank's samples of one step, packed: home rows. A sequence is its text, then its image.
template <class T>
struct MMDiTBatch {
  std::vector<std::int64_t> lengths;        ///< tokens of each sequence
  std::vector<std::int64_t> image_lengths;  ///< image tokens of each sequence
  MMDiTInput<T> input;                      ///< what the model is given
  Matrix<T> targets;                        ///< [image tokens x d_patch]
};

/// Of sequences with at most a quarter of text. Text, patches and targets in [-1, 1), the shares of
/// text and the times of the diffusion are drawn by hashing, as make_synthetic_batch() does; images
/// are as high as wide.
template <class T>
MMDiTBatch<T> make_synthetic_mmdit_batch(const Device& exec, std::span<const std::int64_t> lengths,
                                         const MMDiTConfig& config, std::uint64_t seed,
                                         std::int64_t step, int home);

/// A part of a batch, in its memory, as of a Batch.
template <class T>
MMDiTBatch<T> micro_batch(const MMDiTBatch<T>& batch, std::int64_t part, std::int64_t parts);

/// An MMDiT and what it is trained for: to predict a target for each image token. Its loss is over
/// image tokens alone. What is not explained is as in TransformerTask.
template <class T>
class MMDiTTask {
 public:
  using Config = MMDiTConfig;   ///< of the model
  using Model = MMDiT<T>;       ///< what is trained
  using Batch = MMDiTBatch<T>;  ///< a micro-batch of a rank

  /// Throws Error as MMDiT does.
  MMDiTTask(const Config& config, std::uint64_t seed) : model_(config, seed) {}

  /// See make_synthetic_mmdit_batch().
  static Batch make_batch(const Device& exec, std::span<const std::int64_t> lengths,
                          const Config& config, std::uint64_t seed, std::int64_t step, int home) {
    return make_synthetic_mmdit_batch<T>(exec, lengths, config, seed, step, home);
  }
  /// See TransformerTask.
  static double count(const Batch& batch, LossMean mean) {
    return count_of(mean, batch.image_lengths);
  }
  /// See TransformerTask.
  static MemoryUse predicted_memory(const Device& exec, const Config& config, const Batch& batch,
                                    const Routing& routing) {
    return knapformer::predicted_memory(exec, config, sizeof(T), routing.plan(),
                                        routing.group().rank(),
                                        static_cast<std::int64_t>(batch.input.text.extent(0)));
  }

  /// See TransformerTask.
  double forward_and_backward(const Device& exec, const Batch& batch, const Routing& routing,
                              LossMean mean, PhaseClock& clock);

  /// Of one forward_and_backward().
  TaskCounts counts(const Batch& batch, const Routing& routing) const;
  /// Bytes held by now, without those of the group.
  MemoryUse memory() const;

  const Model& model() const { return model_; }  ///< with the gradients of all calls

 private:
  Model model_;
  Arena<T> arena_;  // of the gradient of the prediction
  LossScales scales_;
  MMDiTSaved<T> saved_;
};

}  // namespace knapformer
