// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/model/mmdit_config.hpp>
#include <knapformer/model/transformer_config.hpp>
#include <variant>

namespace knapformer {

/// A model that can be trained.
using ModelConfig = std::variant<TransformerConfig, MMDiTConfig>;

/// What plans, traces and tables say of any model.
struct ModelShape {
  std::int64_t layers = 0;      ///< blocks of all kinds
  std::int64_t d_model = 0;     ///< width of the blocks
  std::int64_t heads = 0;       ///< of attention
  std::int64_t plan_heads = 0;  ///< of a plan: those of keys
};

/// Of a TransformerConfig.
inline ModelShape shape_of(const TransformerConfig& config) {
  return {config.layers, config.d_model, config.heads, config.plan_heads()};
}
/// Of an MMDiTConfig.
inline ModelShape shape_of(const MMDiTConfig& config) {
  return {config.double_blocks + config.single_blocks, config.d_model, config.heads, config.heads};
}
/// Of whichever it is.
inline ModelShape shape_of(const ModelConfig& config) {
  return std::visit([](const auto& of) { return shape_of(of); }, config);
}

}  // namespace knapformer
