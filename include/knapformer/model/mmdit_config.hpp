// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <cstdint>
#include <knapformer/model/parameter_info.hpp>
#include <string_view>
#include <vector>

namespace knapformer {

/// A multimodal diffusion transformer as in FLUX: double-stream blocks, in which text and image
/// tokens have weights of their own and attend to each other, then single-stream blocks (see MMDiT,
/// DoubleStreamBlock and SingleStreamBlock).
struct MMDiTConfig {
  std::int64_t double_blocks = 0;  ///< at least 0
  std::int64_t single_blocks = 0;  ///< at least 0
  std::int64_t d_model = 0;        ///< width of the blocks
  std::int64_t heads = 0;          ///< of attention
  std::int64_t d_mlp = 0;          ///< hidden width of the MLPs
  std::int64_t d_patch = 64;       ///< width of image tokens, in and out
  std::int64_t d_text = 4096;      ///< width of text tokens
  std::int64_t d_time = 256;       ///< width of the timestep's sinusoids
  /// Elements of a head that each coordinate rotates: even, d_model / heads together.
  std::array<std::int64_t, 3> rope_axes = {};
  double rope_base = 10000;    ///< see kernels::rope_table
  double eps = 1e-6;           ///< of all norms
  double time_factor = 1000;   ///< times are multiplied by it
  double time_period = 10000;  ///< see kernels::time_embedding
  bool checkpoint = true;  ///< keep only block inputs; the backward pass computes the rest again

  std::int64_t d_head() const { return d_model / heads; }  ///< width of a head
};

/// "tiny", "small", "base", "large", or "flux" (19 + 38 blocks, d_model 3072, 24 heads). Throws
/// Error for another name.
MMDiTConfig mmdit_preset(std::string_view name);

/// Throws Error, naming the field, unless all extents are positive (there may be no blocks), heads
/// divide d_model, d_time is even and the RoPE axes fit a head.
void check(const MMDiTConfig& config);

/// The parameters of a double-stream block, of a single-stream block, and of what is around them,
/// in order, without gaps. Names are those of the reference implementation and of FLUX, e.g.
/// "img_attn/qkv/weight", "linear1/weight" and "time_in/in_layer/weight".
std::vector<ParameterInfo> double_stream_parameters(const MMDiTConfig& config);
std::vector<ParameterInfo> single_stream_parameters(const MMDiTConfig& config);
std::vector<ParameterInfo> mmdit_ends_parameters(const MMDiTConfig& config);

/// All parameters of an MMDiT: its ends, then "double_blocks/0/..." and "single_blocks/0/..." and
/// so on.
std::vector<ParameterInfo> mmdit_parameters(const MMDiTConfig& config);

}  // namespace knapformer
