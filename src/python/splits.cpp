// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "splits.hpp"

#include <algorithm>
#include <knapformer/plan/error.hpp>
#include <numeric>
#include <span>
#include <string>

namespace knapformer {
namespace {

struct Range {
  std::int64_t first;
  std::int64_t end;
};

// The sequences of a home; they are next to each other.
Range sequences_at(const Plan& plan, std::int64_t home) {
  const auto found = std::ranges::equal_range(plan.homes(), home);
  return {found.begin() - plan.homes().begin(), found.end() - plan.homes().begin()};
}

// Rows for one destination keep the order of the sequences. The receiver has the sequences of all
// sources ordered by source, which is how an all-to-all delivers them.
void order_rows(const Plan& plan, Range sequences, Splits& splits) {
  std::vector<std::int64_t> next(splits.send_counts.size(), 0);
  std::exclusive_scan(splits.send_counts.begin(), splits.send_counts.end(), next.begin(),
                      std::int64_t{0});
  splits.rows.resize(
      std::accumulate(splits.send_counts.begin(), splits.send_counts.end(), std::int64_t{0}));
  std::int64_t row = 0;
  for (std::int64_t i = sequences.first; i < sequences.end; ++i) {
    for (const Chunk& chunk : plan.chunks(i)) {
      const auto to = splits.rows.begin() + next[chunk.rank];
      std::iota(to, to + chunk.tokens, row);
      next[chunk.rank] += chunk.tokens;
      row += chunk.tokens;
    }
  }
}

}  // namespace

Splits splits_of(const Plan& plan, std::int64_t rank) {
  if (rank < 0 || rank >= plan.ranks()) {
    throw Error("splits: rank is " + std::to_string(rank) + "; expected 0 to " +
                std::to_string(plan.ranks() - 1));
  }
  Splits splits;
  splits.send_counts.resize(plan.ranks());
  splits.receive_counts.resize(plan.ranks());
  const Range mine = sequences_at(plan, rank);
  for (std::int64_t i = mine.first; i < mine.end; ++i) {
    for (const Chunk& chunk : plan.chunks(i)) splits.send_counts[chunk.rank] += chunk.tokens;
  }
  for (std::int64_t i = 0; i < plan.sequences(); ++i) {
    for (const Chunk& chunk : plan.chunks(i)) {
      if (chunk.rank == rank) splits.receive_counts[plan.homes()[i]] += chunk.tokens;
    }
  }
  order_rows(plan, mine, splits);
  return splits;
}

}  // namespace knapformer
