// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "uniform_plan.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace knapformer::perf {

std::int64_t uniform_heads(std::int64_t ranks) {
  return ranks * std::max<std::int64_t>(1, 16 / ranks);
}

Plan scatter_plan(std::int64_t ranks, std::int64_t sequences, std::int64_t rows) {
  const std::int64_t heads = uniform_heads(ranks);
  const std::int64_t length = rows / sequences;
  std::vector<std::int64_t> homes, lengths, offsets{0};
  std::vector<Chunk> chunks;
  for (std::int64_t home = 0; home < ranks; ++home) {
    for (std::int64_t i = 0; i < sequences; ++i) {
      chunks.push_back({i % ranks, 0, length, 0, heads});
      homes.push_back(home);
      lengths.push_back(length);
      offsets.push_back(std::ssize(chunks));
    }
  }
  return Plan(ranks, heads, CostModel::transformer(1024), std::move(homes), std::move(lengths),
              std::move(offsets), std::move(chunks));
}

Plan shared_plan(std::int64_t ranks, std::int64_t sequences, std::int64_t rows) {
  const std::int64_t heads = uniform_heads(ranks);
  const std::int64_t share = rows / sequences;
  std::vector<std::int64_t> homes, lengths, offsets{0};
  std::vector<Chunk> chunks;
  for (std::int64_t i = 0; i < sequences; ++i) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      chunks.push_back({rank, rank * share, share, rank * heads / ranks, heads / ranks});
    }
    homes.push_back(i * ranks / sequences);
    lengths.push_back(share * ranks);
    offsets.push_back(std::ssize(chunks));
  }
  return Plan(ranks, heads, CostModel::transformer(1024), std::move(homes), std::move(lengths),
              std::move(offsets), std::move(chunks));
}

}  // namespace knapformer::perf
