// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <array>
#include <knapformer/kernels/attention.hpp>
#include <knapformer/train/memory.hpp>
#include <limits>
#include <vector>

#include "comm/short_range.hpp"
#include "route/row_runs.hpp"

namespace knapformer {
namespace {

/// Of the loss of a row, on the host and on the device.
constexpr auto kScaleBytes = static_cast<std::int64_t>(2 * sizeof(double));
/// Of what travels beside a token.
constexpr auto kPositionBytes = static_cast<std::int64_t>(3 * sizeof(std::int32_t));
constexpr auto kModalityBytes = static_cast<std::int64_t>(sizeof(std::int32_t));

/// One part of the attention of a rank, see RoutedAttention.
struct AttentionPart {
  std::vector<AttentionProblem> problems = {};
  std::int64_t head_rows = 0;

  /// Sums that its backward pass works in, of dq in place where elements are as wide.
  std::int64_t workspace(const Device& exec, std::int64_t queries_per_key, std::int64_t d_head,
                         bool in_place) const {
    return head_rows * queries_per_key *
           (1 + (kernels::attention_segments(exec, problems) - in_place) * d_head);
  }
};

/// Rows of a rank.
struct RankRows {
  RankRows(const Plan& plan, std::int64_t rank)
      : runs(find_route_runs(plan, rank)), sequences(std::ranges::count(plan.homes(), rank)) {
    for (const LocalChunk& mine : runs.chunks) {
      const std::int64_t length = plan.lengths()[static_cast<std::size_t>(mine.sequence)];
      const Chunk& own = mine.chunk;
      const auto chunks = plan.chunks(mine.sequence);
      AttentionPart& part = chunks.size() > 1 ? split : unsplit;
      part.problems.push_back({.length = length, .heads = own.heads});
      part.head_rows += length * own.heads;
      for (const Chunk& chunk : chunks) {
        if (chunk.rank == rank) continue;
        const auto peer = static_cast<int>(chunk.rank);
        sent_heads.push_back({.peer = peer, .rows = own.tokens * chunk.heads});
        received_heads.push_back({.peer = peer, .rows = chunk.tokens * own.heads});
      }
    }
  }

  std::int64_t head_rows() const { return unsplit.head_rows + split.head_rows; }
  /// Of the part that needs more, see AttentionPart.
  std::int64_t workspace(const Device& exec, std::int64_t queries_per_key, std::int64_t d_head,
                         bool in_place) const {
    return std::max(unsplit.workspace(exec, queries_per_key, d_head, in_place),
                    split.workspace(exec, queries_per_key, d_head, in_place));
  }

  RouteRuns runs;
  std::int64_t sequences;                          ///< of the home rows
  std::vector<RowRun> sent_heads, received_heads;  ///< rows of a head, by pre-attention
  AttentionPart unsplit, split;
};

/// Bytes of the rows that travel together.
struct RowBytes {
  std::vector<std::int64_t> routed;  ///< of each array that goes from home to the plan's ranks
  std::vector<std::int64_t> heads;   ///< of a head's q, k and v
};

/// Scratch memory of the exchanges of `rank`: packed heads, and second copies of short ranges.
std::int64_t scratch_bytes(std::int64_t rank, const RankRows& rows, const RowBytes& widths) {
  const auto bytes_up_to = [rank](std::int64_t largest, const std::vector<RowRun>& runs,
                                  const std::vector<std::int64_t>& of_rows) {
    std::int64_t sum = 0;
    for (const RowRun& run : runs) {
      for (const std::int64_t width : of_rows) {
        const std::int64_t bytes = run.rows * width;
        if (run.peer != rank && bytes <= largest) sum += bytes;
      }
    }
    return sum;
  };
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  std::array<std::int64_t, 3> routing{bytes_up_to(kShortRange, rows.runs.home, widths.routed),
                                      bytes_up_to(kShortRange, rows.runs.routed, widths.routed)};
  std::array<std::int64_t, 3> attention{
      bytes_up_to(kAll, rows.sent_heads, widths.heads),
      bytes_up_to(kShortRange, rows.sent_heads, widths.heads),
      bytes_up_to(kShortRange, rows.received_heads, widths.heads)};
  // They take turns with the same buffers, the largest with the largest.
  std::ranges::sort(routing);
  std::ranges::sort(attention);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < routing.size(); ++i) bytes += std::max(routing[i], attention[i]);
  return bytes + bytes / 4;  // buffers come with a quarter to spare
}

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
          .exchange = std::max(a.exchange, b.exchange),
          .scratch = std::max(a.scratch, b.scratch)};
}

MemoryUse predicted_memory(const Device& exec, const TransformerConfig& model,
                           std::int64_t element_bytes, const Plan& plan, std::int64_t rank) {
  const RankRows rows(plan, rank);
  const std::int64_t routed = rows.runs.routed_rows, home = rows.runs.home_rows;
  const std::int64_t head_rows = rows.head_rows();
  const std::int64_t d = model.d_model, d_head = model.d_head(), layers = model.layers;
  const std::int64_t kept = model.checkpoint ? std::min<std::int64_t>(layers, 1) : layers;
  const auto sum_bytes = std::max<std::int64_t>(element_bytes, sizeof(float));
  const bool in_place = sum_bytes == element_bytes;
  const std::int64_t workspace = rows.workspace(exec, model.queries_per_key(), d_head, in_place);
  const std::int64_t activations = routed * (layers + 1) * d +  // block inputs
                                   kept * block_activations(model, routed, head_rows) +
                                   block_scratch(model, routed, head_rows);
  const std::int64_t sums = routed * d_head +  // angles
                            kept * block_statistics(model, routed, head_rows) + workspace;
  const std::int64_t tokens = 2 * (routed + home) * d;
  RowBytes widths{{d * element_bytes, kPositionBytes}, {}};
  if (layers > 0) {
    const std::int64_t key = d_head * element_bytes;
    widths.heads = {model.queries_per_key() * key, key, key};
  }
  return {.parameters = parameters_of(model) * (sum_bytes + (in_place ? 0 : element_bytes)),
          .gradients = parameters_of(model) * sum_bytes,
          .activations = activations * element_bytes + sums * sum_bytes,
          .exchange = tokens * element_bytes + routed * kPositionBytes + home * kScaleBytes,
          .scratch = scratch_bytes(rank, rows, widths)};
}

MemoryUse predicted_memory(const Device& exec, const MMDiTConfig& model, std::int64_t element_bytes,
                           const Plan& plan, std::int64_t rank, std::int64_t text_tokens) {
  const RankRows rows(plan, rank);
  const std::int64_t d = model.d_model, d_head = model.d_head(), head_rows = rows.head_rows();
  const std::int64_t routed = rows.runs.routed_rows, home = rows.runs.home_rows,
                     chunks = std::ssize(rows.runs.chunks), sequences = rows.sequences;
  const std::int64_t doubles = model.double_blocks, singles = model.single_blocks;
  const std::int64_t image = home - text_tokens;
  const auto kept = [&](std::int64_t blocks) {
    return model.checkpoint ? std::min<std::int64_t>(blocks, 1) : blocks;
  };
  const auto sum_bytes = std::max<std::int64_t>(element_bytes, sizeof(float));
  const bool in_place = sum_bytes == element_bytes;

  // As the arenas of StreamStack, of its blocks and of the ends are laid out.
  const std::int64_t stack = routed * (doubles + singles + 4) * d + chunks * d;
  const std::int64_t heads = head_rows * 4 * d_head;
  const std::int64_t scratch =
      routed * (5 * d + model.d_mlp + std::max(model.d_mlp, 3 * d)) + heads + 12 * chunks * d;
  const std::int64_t double_block = routed * (9 * d + 2 * model.d_mlp) + heads + 12 * chunks * d;
  const std::int64_t single_block = routed * (6 * d + 2 * model.d_mlp) + heads + 3 * chunks * d;
  const std::int64_t ends = sequences * (2 * model.d_time + 10 * d) + (home + 4 * image) * d;
  const std::int64_t activations =
      stack + scratch + kept(doubles) * double_block + kept(singles) * single_block + ends;
  const std::int64_t sums = routed * d_head + 2 * image +
                            kept(doubles) * (routed * (4 + 2 * model.heads) + head_rows) +
                            kept(singles) * (routed * (2 + 2 * model.heads) + head_rows) +
                            rows.workspace(exec, 1, d_head, in_place);
  // Where every row is in its stream, at home and as routed.
  const std::int64_t order = home + 3 * sequences + routed + 3 * chunks;

  const std::int64_t parameters = total_size(mmdit_parameters(model));
  const std::int64_t moved = (home + 2 * routed + chunks) * d;
  const std::int64_t in_and_out = 3 * image * model.d_patch + text_tokens * model.d_text;
  RowBytes widths{{d * element_bytes, kPositionBytes, kModalityBytes}, {}};
  if (doubles + singles > 0) widths.heads.assign(3, d_head * element_bytes);
  return {.parameters = parameters * (sum_bytes + (in_place ? 0 : element_bytes)),
          .gradients = parameters * sum_bytes,
          .activations = activations * element_bytes + sums * sum_bytes +
                         order * static_cast<std::int64_t>(sizeof(std::int64_t)),
          .exchange = (moved + in_and_out) * element_bytes +
                      routed * (kPositionBytes + kModalityBytes) + image * kScaleBytes,
          .scratch = scratch_bytes(rank, rows, widths)};
}

}  // namespace knapformer
