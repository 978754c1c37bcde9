// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/elastic/sharing.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

namespace knapformer {
namespace {

// Not more than the value: parts are of a whole.
std::int64_t times_part(std::int64_t value, std::int64_t part) {
  return static_cast<std::int64_t>((Work{value} * part) >> Sharing::kWholeBits);
}

// Most numbers fit into 64 bits, which divide faster.
Work quotient(Work a, Work b) {
  const auto small_a = static_cast<std::int64_t>(a), small_b = static_cast<std::int64_t>(b);
  return small_a == a && small_b == b ? small_a / small_b : a / b;
}

}  // namespace

std::int64_t Sharing::most_ranks(std::int64_t i) const {
  return problem_.shares(i, std::min(problem_.topology.max_degree(), problem_.ranks));
}

std::int64_t Sharing::head_room(std::int64_t i, std::int64_t rank) const {
  if (problem_.max_attention_tokens == PlanRequest::kNoCap) return problem_.heads;
  const Work room =
      Work{problem_.max_attention_tokens} * problem_.heads - times_.attention_tokens(rank);
  return room <= 0 ? 0
                   : static_cast<std::int64_t>(
                         std::min<Work>(room / problem_.lengths[i], problem_.heads));
}

void Sharing::start(std::int64_t i, std::span<const std::int64_t> ranks) {
  parts_.clear();
  const auto equal = kWhole / std::ssize(ranks);
  for (const std::int64_t rank : ranks) {
    parts_.push_back({.rank = rank,
                      .start = times_.time(rank),
                      .part = equal,
                      .most_tokens = std::min(token_room(rank), problem_.lengths[i]),
                      .most_heads = head_room(i, rank)});
  }
}

// What all of the sequence would take each rank, if it talked about it as it does with its part.
void Sharing::find_slopes(std::int64_t i) {
  const TickModel& model = times_.model();
  const std::int64_t length = problem_.lengths[i], rows = length * problem_.heads;
  const std::int64_t home = problem_.homes[i], home_node = model.node(home);
  const Ticks whole = model.whole(i);
  const Ticks talk_near = model.of_attention_rows(rows, false);
  const Ticks talk_far = model.of_attention_rows(rows, true);
  const Ticks routed_near = model.of_routed_rows(length, false);
  const Ticks routed_far = model.of_routed_rows(length, true);
  std::int64_t node = -1, near = 0, all = 0;  // near: parts on the node
  for (const Part& part : parts_) all += part.part;
  for (Part& own : parts_) {
    if (node < 0 || !model.on_node(node, own.rank)) {
      node = model.node(own.rank);
      near = 0;
      for (const Part& other : parts_) {
        if (model.on_node(node, other.rank)) near += other.part;
      }
    }
    Work slope = model.at_speed_of(own.rank, whole);
    slope += times_part(talk_near, near - own.part);
    slope += times_part(talk_far, all - near);
    if (own.rank != home) slope += node == home_node ? routed_near : routed_far;
    own.slope = static_cast<Ticks>(std::max<Work>(slope, 1));
  }
}

void Sharing::sort_by_start() {
  by_start_.clear();
  for (Part& part : parts_) by_start_.push_back(&part);
  std::ranges::sort(by_start_, [](const Part* a, const Part* b) {
    return a->start != b->start ? a->start < b->start : a->rank < b->rank;
  });
}

// The level at which the parts add up to a whole, over the ranks that start below it.
void Sharing::find_level() {
  constexpr int kInverseBits = 60;
  Work inverses = 0, weighted = 0, level = 0;
  for (const Part* part : by_start_) {
    if (inverses > 0 && level <= part->start) break;
    const Work inverse = std::max<std::int64_t>((std::int64_t{1} << kInverseBits) / part->slope, 1);
    inverses += inverse;
    weighted += inverse * part->start;
    level = ((Work{1} << kInverseBits) + weighted) / inverses;
  }
  for (Part& part : parts_) {
    const Work room = std::max<Work>(level - part.start, 0);
    part.part =
        static_cast<std::int64_t>(std::min<Work>(quotient(room << kWholeBits, part.slope), kWhole));
  }
}

std::span<const Share> Sharing::level(std::int64_t i, std::span<const std::int64_t> ranks) {
  start(i, ranks);
  if (ranks.size() > 1) {
    sort_by_start();
    for (int round = 0; round < 2; ++round) {
      find_slopes(i);
      find_level();
    }
  }
  return whole_heads_and_tokens(i);
}

std::int64_t Sharing::part_until(std::int64_t i, std::int64_t rank, std::int64_t ranks,
                                 Ticks time) const {
  const TickModel& model = times_.model();
  const std::int64_t home = problem_.homes[i];
  Work room = time - times_.time(rank) - (ranks - 1) * model.per_bag_peer();
  if (room <= 0) return 0;
  const Work compute = model.at_speed_of(rank, model.whole(i));
  const Ticks talk = model.of_attention_rows(problem_.lengths[i] * problem_.heads, false);
  Work routed = 0;
  if (rank != home) {
    routed = model.of_routed_rows(problem_.lengths[i], model.node(rank) != model.node(home));
  }
  // part (compute + routed + talk (1 - part)) = room, in two rounds from above.
  Work part = quotient(room << kWholeBits, std::max<Work>(compute + routed, 1));
  for (int round = 0; round < 2; ++round) {
    part = std::min<Work>(part, kWhole);
    const Work slope =
        compute + routed + times_part(talk, kWhole - static_cast<std::int64_t>(part));
    part = quotient(room << kWholeBits, std::max<Work>(slope, 1));
  }
  return static_cast<std::int64_t>(std::min<Work>(part, kWhole));
}

std::span<const Share> Sharing::fill(std::int64_t i, std::span<const std::int64_t> ranks,
                                     Ticks time) {
  start(i, ranks);
  std::int64_t left = kWhole;
  for (Part& part : parts_) {
    part.part = std::min(left, part_until(i, part.rank, std::ssize(ranks), time));
    left -= part.part;
  }
  parts_.back().part += left;
  return whole_heads_and_tokens(i);
}

std::span<const Share> Sharing::whole_heads_and_tokens(std::int64_t i) {
  shares_.clear();
  find_least_heads(i);
  if (!round_heads() || !round_tokens(i)) return {};
  for (const Part& part : parts_) shares_.push_back({part.rank, part.tokens, part.heads});
  std::ranges::sort(shares_, {}, &Share::rank);
  return shares_;
}

// A rank that may not take the tokens of its part makes up for it with heads.
void Sharing::find_least_heads(std::int64_t i) {
  const TickModel& model = times_.model();
  const Ticks per_head = model.of_heads(i, 1);
  if (problem_.max_tokens == PlanRequest::kNoCap || per_head == 0) return;
  for (Part& part : parts_) {
    if (part.most_tokens >= problem_.lengths[i]) continue;
    const Work work = times_part(model.whole(i), part.part);
    const Work by_tokens = model.compute(i, std::max<std::int64_t>(part.most_tokens, 0), 0);
    part.least_heads = static_cast<std::int64_t>(
        std::clamp<Work>((work - by_tokens) / per_head, 1, std::max<Work>(part.most_heads, 1)));
  }
}

// Every rank its part of the heads rounded down, at least one; what is left goes to the largest
// remainders.
bool Sharing::round_heads() {
  const std::int64_t heads = problem_.heads;
  std::int64_t left = heads;
  for (Part& part : parts_) {
    if (part.most_heads < 1) return false;
    part.heads = std::clamp<std::int64_t>(static_cast<std::int64_t>(times_part(heads, part.part)),
                                          part.least_heads, part.most_heads);
    left -= part.heads;
  }
  const std::int64_t needed =
      std::accumulate(parts_.begin(), parts_.end(), std::int64_t{0},
                      [](std::int64_t sum, const Part& part) { return sum + part.least_heads; });
  const auto least = [&](const Part& part) { return needed > heads ? 1 : part.least_heads; };
  while (left != 0) {
    Part* best = nullptr;
    std::int64_t best_wish = std::numeric_limits<std::int64_t>::min();
    for (Part& part : parts_) {
      if (left > 0 ? part.heads == part.most_heads : part.heads == least(part)) continue;
      const std::int64_t lacking = heads * part.part - part.heads * kWhole;
      const std::int64_t wish = left > 0 ? lacking : -lacking;
      if (wish > best_wish) {
        best = &part;
        best_wish = wish;
      }
    }
    if (best == nullptr) return false;
    // Many at once while many are left, one by one in the end.
    const std::int64_t step = std::max<std::int64_t>(std::abs(left) / std::ssize(parts_), 1);
    const std::int64_t limit =
        left > 0 ? best->most_heads - best->heads : best->heads - least(*best);
    const std::int64_t change = std::min(step, limit);
    best->heads += left > 0 ? change : -change;
    left -= left > 0 ? change : -change;
  }
  return true;
}

// As many tokens as make up the part of the work that the heads do not.
bool Sharing::round_tokens(std::int64_t i) {
  const TickModel& model = times_.model();
  const std::int64_t length = problem_.lengths[i];
  const Work for_tokens = std::max<Work>(model.compute(i, length, 0), 1);
  std::int64_t left = length;
  for (Part& part : parts_) {
    if (part.most_tokens < 1) return false;
    const Work work = times_part(model.whole(i), part.part) - model.of_heads(i, part.heads);
    const Work tokens = quotient(work * length, for_tokens);
    part.tokens = static_cast<std::int64_t>(std::clamp<Work>(tokens, 1, part.most_tokens));
    left -= part.tokens;
  }
  // Clamping leaves a remainder: the ranks that can take it take equal parts of it.
  while (left != 0) {
    std::int64_t takers = 0;
    for (const Part& part : parts_) {
      takers += left > 0 ? part.tokens < part.most_tokens : part.tokens > 1;
    }
    if (takers == 0) return false;
    for (Part& part : parts_) {
      if (left > 0 ? part.tokens >= part.most_tokens : part.tokens <= 1) continue;
      const std::int64_t wish = left / takers != 0 ? left / takers : (left > 0 ? 1 : -1);
      const std::int64_t tokens = std::clamp(part.tokens + wish, std::int64_t{1}, part.most_tokens);
      left -= tokens - part.tokens;
      part.tokens = tokens;
      if (left == 0) break;
    }
  }
  return true;
}

}  // namespace knapformer
