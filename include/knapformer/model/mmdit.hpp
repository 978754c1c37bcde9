// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/model/mmdit_ends.hpp>
#include <knapformer/model/stream_stack.hpp>
#include <optional>
#include <string_view>
#include <vector>

namespace knapformer {

/// A packed batch as this rank has loaded it. Views that are not written.
template <class T>
struct MMDiTInput {
  Matrix<T> patches;            ///< [image tokens x d_patch], in their order among all tokens
  Matrix<T> text;               ///< [text tokens x d_text]
  Modalities modalities;        ///< [home_rows]
  Positions positions;          ///< [home_rows x 3]
  Vector<Accumulate<T>> times;  ///< [home_sequences]: of the diffusion, from 0 to 1
};

/// See Saved.
template <class T>
class MMDiTSaved {
 public:
  MMDiTSaved() = default;
  MMDiTSaved(MMDiTSaved&&) noexcept = default;
  MMDiTSaved& operator=(MMDiTSaved&&) noexcept = default;

  /// Of device memory held, without row_bytes().
  std::int64_t bytes() const;
  /// Of the rows that come from home and go back, and of those that the model takes and gives.
  std::int64_t row_bytes() const;

 private:
  template <class U>
  friend class MMDiT;

  std::optional<std::uint64_t> plan_;  // hash of the forward pass's, until the backward pass
  MMDiTInput<T> input_;
  StreamOrder order_;  // of the home rows
  MMDiTEndsActivations<T> ends_;
  Matrix<T> home_;                      // [home_rows x d_model]
  Matrix<T> routed_, routed_gradient_;  // [routed_rows x d_model]
  Matrix<T> chunk_conditioning_;        // [chunks x d_model]
  Matrix<T> d_patches_, d_text_, out_;
  Modalities modalities_;  // routed
  Positions positions_;
  StreamSaved<T> stack_;
  Arena<T> arena_;
  Arena<std::int32_t> integers_;
};

/// A multimodal diffusion transformer (arXiv 2403.03206, as in FLUX), from the tokens that a rank
/// loaded to a prediction for its image tokens: embeds patches, text and times, routes the tokens,
/// computes the blocks as planned, routes back, and ends with a modulated norm and a linear layer.
/// Double, float and bfloat16, as Transformer has it.
template <class T>
class MMDiT {
 public:
  /// Those of the input.
  struct Gradients {
    Matrix<T> patches;  ///< [image tokens x d_patch]
    Matrix<T> text;     ///< [text tokens x d_text]
  };

  /// Draws parameters as Transformer does. Throws Error as check() does.
  MMDiT(const MMDiTConfig& config, std::uint64_t seed);

  const MMDiTConfig& config() const { return config_; }  ///< as given

  /// All parameters (see mmdit_parameters), and their gradients in the same layout.
  const Vector<Accumulate<T>>& parameters() const { return parameters_; }
  /// What backward() adds to.
  const Vector<Accumulate<T>>& gradients() const { return gradients_; }

  /// One parameter, or its gradient, by its name. Throws Error for an unknown one.
  Vector<Accumulate<T>> parameter(std::string_view name) const;
  /// The gradient of the same.
  Vector<Accumulate<T>> gradient(std::string_view name) const;

  /// Of parameters(), and of what they are rounded to.
  std::int64_t parameter_bytes() const;

  /// Returns the prediction [image tokens x d_patch] for this rank's own image tokens, in the
  /// memory of `saved`: it lives until that is used for the next forward pass. The input must stay
  /// as it is until the backward pass. Collective. `on_exchange` is told of exchanges around
  /// attention, `on_route` of those between home and the blocks.
  Matrix<T> forward(const Device& exec, const Routing& routing, const MMDiTInput<T>& input,
                    MMDiTSaved<T>& saved, const ExchangeObserver& on_exchange = {},
                    const ExchangeObserver& on_route = {}) const;

  /// Adds to the gradients of the parameters, which are to be summed over the ranks, and returns
  /// those of the input, in the memory of `saved`. Once for every forward pass, with its routing.
  /// Collective.
  Gradients backward(const Device& exec, const Routing& routing, const Matrix<T>& d_out,
                     MMDiTSaved<T>& saved, const ExchangeObserver& on_exchange = {},
                     const ExchangeObserver& on_route = {}) const;

  /// FLOPs of one forward pass on this rank: 2 m n k of every matrix product of its own sequences
  /// and of its share of a plan, 4 L^2 d_head of attention for every head.
  double forward_flops(const Routing& routing, const MMDiTInput<T>& input) const;
  /// FLOPs of one backward pass, recomputation included, see Transformer.
  double backward_flops(const Routing& routing, const MMDiTInput<T>& input) const;

 private:
  void lay_out(const Device& exec, const Routing& routing, MMDiTSaved<T>& saved) const;
  Vector<Accumulate<T>> named(const Vector<Accumulate<T>>& all, std::string_view name) const;

  MMDiTConfig config_;
  std::vector<ParameterInfo> layout_;
  Vector<Accumulate<T>> parameters_;
  Vector<Accumulate<T>> gradients_;
  Vector<T> rounded_;  // the parameters in T: the same memory where that is what they are
  std::optional<MMDiTEnds<T>> ends_;
  std::optional<StreamStack<T>> stack_;
};

}  // namespace knapformer
