// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <knapformer/kernels/attention.hpp>
#include <knapformer/plan/error.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention_tile.hpp"

namespace knapformer::kernels {
namespace {

constexpr std::int64_t kMaxSegments = 8;  // each costs the backward pass a copy of dq

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The items of one head of a problem, `tokens` each. Last tokens first: with causal attention they
/// have the most to do as queries.
void append_items(const AttentionProblem& problem, std::int64_t head, std::int64_t query_head,
                  std::int64_t tokens, std::vector<AttentionItem>& items) {
  for (std::int64_t part = divide_up(problem.length, tokens) - 1; part >= 0; --part) {
    items.push_back({.first_row = problem.offset + head,
                     .row_step = problem.heads,
                     .length = problem.length,
                     .begin = part * tokens,
                     .end = std::min(problem.length, (part + 1) * tokens),
                     .segment = part,
                     .query_head = query_head});
  }
}

using ItemView = Kokkos::View<AttentionItem*, Device>;

void copy_items(const Device& exec, const std::vector<AttentionItem>& items, const ItemView& to) {
  Kokkos::deep_copy(exec, to,
                    Kokkos::View<const AttentionItem*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                        items.data(), items.size()));
}

}  // namespace

/// As many as keep the workers busy, each at least a tile.
std::int64_t attention_segments(const Device& exec, std::span<const AttentionProblem> problems,
                                std::int64_t workers) {
  if (workers == 0) workers = std::max(1, exec.concurrency() / kAttentionThreads);
  std::int64_t heads = 0, longest = 0;
  for (const AttentionProblem& problem : problems) {
    if (problem.length == 0) continue;
    heads += problem.heads;
    longest = std::max(longest, problem.length);
  }
  if (heads == 0 || workers <= 1) return 1;
  return std::clamp<std::int64_t>(divide_up(2 * workers, heads), 1,
                                  std::min(kMaxSegments, divide_up(longest, kTile)));
}

AttentionWork make_attention_work(const Device& exec, std::span<const AttentionProblem> problems,
                                  bool causal, std::int64_t queries_per_key, std::int64_t workers,
                                  AttentionWork old) {
  if (queries_per_key < 1) {
    throw Error("attention: " + std::to_string(queries_per_key) +
                " query heads for each head of keys; give at least 1");
  }
  std::vector<AttentionProblem> longest_first(problems.begin(), problems.end());
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [](const auto& a, const auto& b) { return a.length > b.length; });

  AttentionWork work;
  work.causal = causal;
  work.queries_per_key = queries_per_key;
  work.segments = attention_segments(exec, problems, workers);
  std::vector<AttentionItem> queries, keys;
  for (const AttentionProblem& problem : longest_first) {
    const std::int64_t segment = divide_up(divide_up(problem.length, work.segments), kTile) * kTile;
    for (std::int64_t head = 0; problem.length > 0 && head < problem.heads; ++head) {
      for (std::int64_t query_head = 0; query_head < queries_per_key; ++query_head) {
        append_items(problem, head, query_head, kTile, queries);
      }
      append_items(problem, head, 0, segment, keys);
    }
    work.head_rows = std::max(work.head_rows, problem.offset + problem.length * problem.heads);
  }
  work.memory = std::move(old.memory);
  const std::size_t items = queries.size() + keys.size();
  if (items > work.memory.extent(0)) {
    work.memory = {};  // before the new one is there
    work.memory = ItemView(
        Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "KnapFormer::attention_items"),
        items);
  }
  work.queries = ItemView(work.memory.data(), queries.size());
  work.keys = ItemView(work.memory.data() + queries.size(), keys.size());
  copy_items(exec, queries, work.queries);
  copy_items(exec, keys, work.keys);
  exec.fence("KnapFormer::attention_items");  // the sources go out of scope
  return work;
}

template <class T>
std::int64_t attention_workspace(const AttentionWork& work, std::int64_t d_head) {
  return work.head_rows * work.queries_per_key * (1 + (work.segments - kInPlace<T>)*d_head);
}

template std::int64_t attention_workspace<float>(const AttentionWork&, std::int64_t);
template std::int64_t attention_workspace<double>(const AttentionWork&, std::int64_t);
template std::int64_t attention_workspace<bfloat16>(const AttentionWork&, std::int64_t);

}  // namespace knapformer::kernels
