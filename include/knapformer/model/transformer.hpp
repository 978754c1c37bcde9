// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/model/transformer_block.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace knapformer {

/// What the backward pass of a Transformer needs, and the memory both passes work in. A value for
/// each batch in flight; used again for the next batch, it keeps its memory. Not for two calls at a
/// time.
template <class T>
class Saved {
 public:
  Saved() = default;
  Saved(Saved&&) noexcept = default;
  Saved& operator=(Saved&&) noexcept = default;

  std::int64_t bytes() const;  ///< of device memory held

 private:
  template <class U>
  friend class Transformer;

  std::optional<std::uint64_t> plan_;  // hash of the forward pass's, until the backward pass
  std::vector<Matrix<T>> inputs_;      // of every block, and the output of the last one
  std::vector<BlockActivations<T>> activations_;  // one when checkpointing, otherwise one a block
  std::int64_t held_block_ = -1;  // when checkpointing: the block that activations_[0] is about
  BlockScratch<T> scratch_;
  RoutedAttention attention_;
  Matrix<Accumulate<T>> rope_;
  Matrix<T> gradient_;
  Arena<T> arena_;
};

/// Transformer blocks on routed rows, with their parameters and gradients. Double, float and
/// bfloat16: then tokens, activations and what products read are bfloat16, sums are made in float,
/// and parameters and gradients are float. forward() rounds the parameters, into memory of the
/// model's own.
template <class T>
class Transformer {
 public:
  /// Weights are drawn around 0 with a standard deviation of 0.02 by a counter-based generator in
  /// exact arithmetic: the same on every rank, compiler and device. Norms are 1, biases 0. Throws
  /// Error as check() does.
  Transformer(const TransformerConfig& config, std::uint64_t seed);

  const TransformerConfig& config() const { return config_; }  ///< as given

  /// All parameters, block after block, and their gradients in the same layout.
  const Vector<Accumulate<T>>& parameters() const { return parameters_; }
  /// What backward() adds to.
  const Vector<Accumulate<T>>& gradients() const { return gradients_; }

  /// One parameter of a block, or its gradient, by its name (see block_parameters). Throws Error
  /// for an unknown one.
  Vector<Accumulate<T>> parameter(std::int64_t block, std::string_view name) const;
  /// The gradient of the same.
  Vector<Accumulate<T>> gradient(std::int64_t block, std::string_view name) const;

  /// Of parameters(), and of what they are rounded to.
  std::int64_t parameter_bytes() const;

  /// The blocks on x [routed_rows x d_model]; the first coordinate of `positions` drives RoPE.
  /// Returns y, shaped like x, in the memory of `saved`: it lives until that is used for the next
  /// forward pass. x must stay as it is until the backward pass. Collective over the routing's
  /// group, ranks without rows included; throws Error on every rank when a view of one does not
  /// fit.
  Matrix<T> forward(const Device& exec, const Routing& routing, const Matrix<T>& x,
                    const Positions& positions, Saved<T>& saved,
                    const ExchangeObserver& observer = {}) const;

  /// Returns dx from dy and what forward() with the same routing left in `saved`, once. Adds to
  /// gradients(). dx lives as y does. Collective.
  Matrix<T> backward(const Device& exec, const Routing& routing, const Matrix<T>& dy,
                     Saved<T>& saved, const ExchangeObserver& observer = {}) const;

  /// FLOPs of one forward pass over this rank's share of a plan: 2 m n k of every matrix product,
  /// 4 L^2 d_head of attention for every head, half of that when causal.
  double forward_flops(const Routing& routing) const;
  /// FLOPs of one backward pass, recomputation included: two products for each of the forward
  /// pass's, five for two in attention.
  double backward_flops(const Routing& routing) const;

 private:
  BlockContext<T> context(const Device& exec, const Routing& routing, const Saved<T>& saved,
                          const ExchangeObserver& observer) const;
  Vector<Accumulate<T>> named(const Vector<Accumulate<T>>& all, std::int64_t block,
                              std::string_view name) const;

  TransformerConfig config_;
  std::vector<ParameterInfo> layout_;
  std::int64_t block_size_ = 0;
  Vector<Accumulate<T>> parameters_;
  Vector<Accumulate<T>> gradients_;
  Vector<T> rounded_;  // the parameters in T: the same memory where that is what they are
  std::vector<TransformerBlock<T>> blocks_;
  std::vector<std::string> regions_;  // of the blocks, for profiling
};

}  // namespace knapformer
