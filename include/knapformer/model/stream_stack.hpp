// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/model/double_stream_block.hpp>
#include <knapformer/model/single_stream_block.hpp>
#include <optional>
#include <string>
#include <vector>

namespace knapformer {

/// What the backward pass of a StreamStack needs, and the memory both passes work in. A value for
/// each batch in flight; used again for the next batch, it keeps its memory. Not for two calls at a
/// time.
template <class T>
class StreamSaved {
 public:
  StreamSaved() = default;
  StreamSaved(StreamSaved&&) noexcept = default;
  StreamSaved& operator=(StreamSaved&&) noexcept = default;

  std::int64_t bytes() const;  ///< of device memory held

 private:
  template <class U>
  friend class StreamStack;

  std::optional<std::uint64_t> plan_;  // hash of the forward pass's, until the backward pass
  StreamOrder order_;
  RoutedAttention attention_;
  // Of every block, and the output of the last one: in stream order, and in routed order.
  std::vector<Matrix<T>> double_inputs_, single_inputs_;
  // One of each when checkpointing, otherwise one a block.
  std::vector<DoubleStreamActivations<T>> double_activations_;
  std::vector<SingleStreamActivations<T>> single_activations_;
  StreamScratch<T> scratch_;
  Matrix<Accumulate<T>> rope_;
  Matrix<T> conditioning_, d_conditioning_;
  Matrix<T> gradient_, sorted_gradient_;
  Arena<T> arena_;
};

/// Double-stream blocks, then single-stream blocks, on routed rows: an MMDiT without its ends.
/// Double, float and bfloat16.
template <class T>
class StreamStack {
 public:
  /// Those of the inputs.
  struct Gradients {
    Matrix<T> x;             ///< [routed_rows x d_model]
    Matrix<T> conditioning;  ///< [chunks x d_model]
  };

  /// `parameters` and `gradients` stay the caller's: those of the double-stream blocks, block after
  /// block, then those of the single-stream blocks. Throws Error as check() does, and for another
  /// size.
  StreamStack(const MMDiTConfig& config, const Vector<T>& parameters,
              const Vector<Accumulate<T>>& gradients);

  /// The blocks on x [routed_rows x d_model], with the SiLU of each sequence's conditioning in
  /// `conditioning` [chunks x d_model]. Returns y, shaped like x, in the memory of `saved`: it
  /// lives until that is used for the next forward pass. x and `conditioning` must stay as they are
  /// until the backward pass. Collective.
  Matrix<T> forward(const Device& exec, const Routing& routing, const Matrix<T>& x,
                    const Matrix<T>& conditioning, const Modalities& modalities,
                    const Positions& positions, StreamSaved<T>& saved,
                    const ExchangeObserver& observer = {}) const;

  /// Adds to the gradients of the parameters and returns those of the inputs, in the memory of
  /// `saved`. Once for every forward pass, with its routing. Collective.
  Gradients backward(const Device& exec, const Routing& routing, const Matrix<T>& dy,
                     StreamSaved<T>& saved, const ExchangeObserver& observer = {}) const;

 private:
  void lay_out(const Device& exec, const Routing& routing, StreamSaved<T>& saved) const;
  StreamContext<T> context(const Device& exec, const Routing& routing, const StreamSaved<T>& saved,
                           const ExchangeObserver& observer) const;

  MMDiTConfig config_;
  std::vector<DoubleStreamBlock<T>> double_blocks_;
  std::vector<SingleStreamBlock<T>> single_blocks_;
  std::vector<std::string> double_regions_, single_regions_;  // of the blocks, for profiling
};

}  // namespace knapformer
