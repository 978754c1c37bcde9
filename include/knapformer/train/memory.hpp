// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/comm/device.hpp>
#include <knapformer/model/mmdit_config.hpp>
#include <knapformer/model/transformer_config.hpp>
#include <knapformer/plan/plan.hpp>

namespace knapformer {

/// Bytes that the training of a model takes on one rank. Trivially copyable.
struct MemoryUse {
  std::int64_t parameters = 0;   ///< of the model
  std::int64_t gradients = 0;    ///< of the parameters
  std::int64_t optimizer = 0;    ///< its state: none for plain gradient descent
  std::int64_t activations = 0;  ///< kept for the backward pass, and what both passes work in
  std::int64_t exchange = 0;     ///< rows that come from home and go back
  /// Of exchanges: packed heads, short ranges on their way, and the index lists of routings.
  std::int64_t scratch = 0;

  std::int64_t total() const {
    return parameters + gradients + optimizer + activations + exchange + scratch;
  }  ///< of all of the above
  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

/// Each the larger one: what buffers that only grow take for both.
MemoryUse largest(const MemoryUse& a, const MemoryUse& b);

/// What a Trainer of `model`, with elements of `element_bytes`, will take on `rank` of the group
/// for a micro-batch planned like this, where MPI moves the rows. Leaves out what is small: lists
/// of indices and alignment.
MemoryUse predicted_memory(const Device& exec, const TransformerConfig& model,
                           std::int64_t element_bytes, const Plan& plan, std::int64_t rank);
/// The same of an MMDiT, where `text_tokens` of the tokens that `rank` loaded are text.
MemoryUse predicted_memory(const Device& exec, const MMDiTConfig& model, std::int64_t element_bytes,
                           const Plan& plan, std::int64_t rank, std::int64_t text_tokens);

}  // namespace knapformer
