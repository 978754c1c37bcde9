// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/model/parameter_info.hpp>
#include <vector>

namespace knapformer {

/// A stack of pre-norm transformer blocks (see TransformerBlock).
struct TransformerConfig {
  std::int64_t layers = 0;    ///< blocks
  std::int64_t d_model = 0;   ///< width of the blocks
  std::int64_t heads = 0;     ///< of attention
  std::int64_t kv_heads = 0;  ///< of keys and values (GQA), each shared by heads / kv_heads
                              ///< queries; 0: as many as heads
  std::int64_t d_ffn = 0;     ///< width of the gated layer
  bool causal = false;        ///< tokens only attend to earlier ones
  bool checkpoint = true;     ///< keep only block inputs; the backward pass computes the rest again
  double rms_eps = 1.1920929e-7;  ///< of all norms
  double rope_base = 10000;       ///< see kernels::rope_table

  std::int64_t d_head() const { return d_model / heads; }  ///< width of a head
  /// The heads of a plan for this model: a bag gives each rank whole heads of keys, with the
  /// queries that share them.
  std::int64_t plan_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  std::int64_t queries_per_key() const { return heads / plan_heads(); }  ///< heads that share one
  std::int64_t d_kv() const { return plan_heads() * d_head(); }          ///< width of k, and of v
  std::int64_t d_qkv() const { return d_model + 2 * d_kv(); }            ///< of q, k and v together
};

/// Throws Error, naming the field, unless all extents are positive (layers and kv_heads may be 0),
/// heads divide d_model, kv_heads divide heads, and d_head is even.
void check(const TransformerConfig& config);

/// The parameters of one block in order, without gaps.
std::vector<ParameterInfo> block_parameters(const TransformerConfig& config);

}  // namespace knapformer
