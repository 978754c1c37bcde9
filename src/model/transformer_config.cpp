// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <initializer_list>
#include <knapformer/model/transformer_config.hpp>
#include <knapformer/plan/error.hpp>
#include <utility>

namespace knapformer {

void check(const TransformerConfig& config) {
  // Keeps the size of a block far inside 64 bits.
  constexpr std::int64_t kLargest = std::int64_t{1} << 24;
  const std::initializer_list<std::pair<const char*, std::int64_t>> extents = {
      {"d_model", config.d_model}, {"heads", config.heads}, {"d_ffn", config.d_ffn}};
  for (const auto& [name, extent] : extents) {
    if (extent < 1 || extent > kLargest) {
      throw Error(fmt::format("transformer: {} is {}, must be in [1, {}]", name, extent, kLargest));
    }
  }
  if (config.layers < 0 || config.layers > kLargest) {
    throw Error(
        fmt::format("transformer: layers is {}, must be in [0, {}]", config.layers, kLargest));
  }
  if (config.d_model % (2 * config.heads) != 0) {
    throw Error(
        fmt::format("transformer: d_model {} must be a multiple of 2 * heads, {}: every head has "
                    "the same, even "
                    "width",
                    config.d_model, 2 * config.heads));
  }
  if (config.kv_heads < 0 || config.heads % config.plan_heads() != 0) {
    throw Error(
        fmt::format("transformer: kv_heads is {}, must divide heads, {}, or be 0 for as many",
                    config.kv_heads, config.heads));
  }
  if (!(config.rms_eps >= 0 && config.rms_eps < 1)) {
    throw Error(fmt::format("transformer: rms_eps is {}, must be in [0, 1)", config.rms_eps));
  }
  if (!(config.rope_base > 0 && config.rope_base < 1e300)) {
    throw Error(fmt::format("transformer: rope_base is {}, must be positive", config.rope_base));
  }
}

std::vector<ParameterInfo> block_parameters(const TransformerConfig& config) {
  const std::int64_t d = config.d_model, d_head = config.d_head(), d_ffn = config.d_ffn;
  return placed({
      {"attn_norm/weight", d},
      {"attn/qkv_proj/weight", config.d_qkv(), d},
      {"attn/qkv_proj/bias", config.d_qkv()},
      {"attn/q_norm/weight", d_head},
      {"attn/k_norm/weight", d_head},
      {"attn/attn_out/weight", d, d},
      {"attn/attn_out/bias", d},
      {"ffn_norm/weight", d},
      {"ffn/ffn_gateup_proj/weight", 2 * d_ffn, d},
      {"ffn/ffn_gateup_proj/bias", 2 * d_ffn},
      {"ffn/ffn_down_proj/weight", d, d_ffn},
      {"ffn/ffn_down_proj/bias", d},
  });
}

}  // namespace knapformer
