// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <knapformer/kernels/attention.hpp>
#include <knapformer/train/memory.hpp>
#include <vector>

namespace knapformer {
namespace {

/// One part of the attention of a rank, see RoutedAttention.
struct AttentionPart {
  std::vector<AttentionProblem> problems = {};
  std::int64_t head_rows = 0;

  /// Sums that its backward pass works in, of dq in place where elements are as wide.
  std::int64_t workspace(const Device& exec, const TransformerConfig& model, bool in_place) const {
    return head_rows * model.queries_per_key() *
           (1 + (kernels::attention_segments(exec, problems) - in_place) * model.d_head());
  }
};

/// Rows of a rank.
struct RankRows {
  RankRows(const Plan& plan, std::int64_t rank) {
    for (std::int64_t s = 0; s < plan.sequences(); ++s) {
      const auto i = static_cast<std::size_t>(s);
      const std::int64_t length = plan.lengths()[i];
      if (plan.homes()[i] == rank) home += length;
      const auto chunks = plan.chunks(s);
      for (const Chunk& chunk : chunks) {
        if (chunk.rank != rank) continue;
        routed += chunk.tokens;
        packed += chunk.tokens * (plan.heads() - chunk.heads);
        AttentionPart& part = chunks.size() > 1 ? split : unsplit;
        part.problems.push_back({.length = length, .heads = chunk.heads});
        part.head_rows += length * chunk.heads;
      }
    }
  }

  std::int64_t home = 0;
  std::int64_t routed = 0;
  std::int64_t packed = 0;  ///< rows of a head that pre-attention sends away
  AttentionPart unsplit, split;
};

/// Elements of a head row: q, k, v and the output, or their gradients.
std::int64_t head_width(const TransformerConfig& model) {
  return 2 * (model.queries_per_key() + 1) * model.d_head();
}

/// Elements of what a block keeps, see BlockActivations.
std::int64_t block_activations(const TransformerConfig& model, std::int64_t rows,
                               std::int64_t head_rows) {
  return rows * (4 * model.d_model + model.d_qkv() + 3 * model.d_ffn) +
         head_rows * head_width(model);
}

/// Statistics that a block keeps beside them.
std::int64_t block_statistics(const TransformerConfig& model, std::int64_t rows,
                              std::int64_t head_rows) {
  return rows * (model.heads + model.plan_heads() + 2) + head_rows * model.queries_per_key();
}

/// Elements of what the blocks take turns to work in, see BlockScratch.
std::int64_t block_scratch(const TransformerConfig& model, std::int64_t rows,
                           std::int64_t head_rows) {
  return rows * (model.d_model + model.d_qkv() + model.d_ffn +
                 std::max(2 * model.d_ffn, model.d_qkv())) +
         head_rows * head_width(model);
}

std::int64_t parameters_of(const TransformerConfig& model) {
  const std::vector<ParameterInfo> layout = block_parameters(model);
  return model.layers * (layout.back().offset + layout.back().size());
}

}  // namespace

MemoryUse largest(const MemoryUse& a, const MemoryUse& b) {
  return {.parameters = std::max(a.parameters, b.parameters),
          .gradients = std::max(a.gradients, b.gradients),
          .optimizer = std::max(a.optimizer, b.optimizer),
          .activations = std::max(a.activations, b.activations),
          .exchange = std::max(a.exchange, b.exchange)};
}

MemoryUse predicted_memory(const Device& exec, const TransformerConfig& model,
                           std::int64_t element_bytes, const Plan& plan, std::int64_t rank) {
  const RankRows rows(plan, rank);
  const std::int64_t head_rows = rows.unsplit.head_rows + rows.split.head_rows;
  const std::int64_t d = model.d_model, d_head = model.d_head(), layers = model.layers;
  const std::int64_t kept = model.checkpoint ? std::min<std::int64_t>(layers, 1) : layers;
  const auto sum_bytes = std::max<std::int64_t>(element_bytes, sizeof(float));
  const bool in_place = sum_bytes == element_bytes;
  const std::int64_t workspace = std::max(rows.unsplit.workspace(exec, model, in_place),
                                          rows.split.workspace(exec, model, in_place));
  const std::int64_t activations = rows.routed * (layers + 1) * d +  // block inputs
                                   kept * block_activations(model, rows.routed, head_rows) +
                                   block_scratch(model, rows.routed, head_rows);
  const std::int64_t sums = rows.routed * d_head +  // angles
                            kept * block_statistics(model, rows.routed, head_rows) + workspace;
  const std::int64_t tokens = 2 * (rows.routed + rows.home) * d;
  const std::int64_t packed = layers > 0 ? (model.queries_per_key() + 2) * rows.packed * d_head : 0;
  const auto position_bytes = static_cast<std::int64_t>(3 * sizeof(std::int32_t));
  const auto scale_bytes = static_cast<std::int64_t>(2 * sizeof(double));  // on host and device
  const std::int64_t packed_bytes = packed * element_bytes;
  return {.parameters = parameters_of(model) * (sum_bytes + (in_place ? 0 : element_bytes)),
          .gradients = parameters_of(model) * sum_bytes,
          .activations = activations * element_bytes + sums * sum_bytes,
          // Scratch comes with a quarter to spare.
          .exchange = tokens * element_bytes + rows.routed * position_bytes +
                      rows.home * scale_bytes + packed_bytes + packed_bytes / 4};
}

}  // namespace knapformer
