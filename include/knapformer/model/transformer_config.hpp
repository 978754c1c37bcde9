// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/model/parameter_info.hpp>
#include <vector>

namespace knapformer {

/// A stack of pre-norm transformer blocks (see TransformerBlock).
struct TransformerConfig {
  std::int64_t layers = 0;   ///< blocks
  std::int64_t d_model = 0;  ///< width of the blocks
  std::int64_t heads = 0;    ///< of attention
  std::int64_t d_ffn = 0;    ///< width of the gated layer
  bool causal = false;       ///< tokens only attend to earlier ones
  bool checkpoint = true;    ///< keep only block inputs; the backward pass computes the rest again
  double rms_eps = 1.1920929e-7;  ///< of all norms
  double rope_base = 10000;       ///< see kernels::rope_table

  std::int64_t d_head() const { return d_model / heads; }  ///< width of a head
};

/// Throws Error, naming the field, unless all extents are positive (layers may be 0), heads divide
/// d_model, and d_head is even.
void check(const TransformerConfig& config);

/// The parameters of one block in order, without gaps.
std::vector<ParameterInfo> block_parameters(const TransformerConfig& config);

}  // namespace knapformer
