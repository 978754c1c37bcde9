// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <knapformer/route/balancer.hpp>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/mpi_test.hpp"

namespace knapformer::test {

/// Topologies for a group: single ranks, bags of every degree that divides it, mixtures and elastic
/// ones.
inline std::vector<std::string> topologies(int ranks) {
  std::vector<std::string> names;
  for (int degree = 1; degree <= ranks; ++degree) {
    if (ranks % degree == 0) {
      names.push_back(join("g", degree, "n", ranks / degree));
    }
  }
  if (ranks > 2) names.push_back(join("g1n1+g", ranks - 1, "n1"));
  if (ranks == 4) names.push_back("g2n1+g1n2");
  if (ranks == 7) names.push_back("g4n1+g1n1+g2n1");
  if (ranks == 8) names.push_back("g1n3+g2n1+g3n1");
  names.insert(names.end(), {"elastic", "elastic2"});
  return names;
}

/// Lengths of this rank's sequences: none at all on some ranks, zero, short and long ones.
inline std::vector<std::int64_t> random_lengths(std::uint64_t seed, int rank,
                                                std::int64_t longest = 60) {
  std::mt19937_64 random(seed * 1000 + static_cast<std::uint64_t>(rank));
  if (random() % 4 == 0) return {};
  std::vector<std::int64_t> lengths(random() % 7);
  for (auto& length : lengths) {
    const auto bound = static_cast<std::uint64_t>(random() % 3 == 0 ? 4 : longest);
    length = static_cast<std::int64_t>(random() % bound);
  }
  return lengths;
}

inline Balancer balancer(const Communicator& group, const std::string& topology,
                         std::int64_t heads) {
  return Balancer(
      group,
      {.topology = Topology::parse(topology), .cost = CostModel::transformer(16), .heads = heads});
}

/// `total` in `parts` random parts, none of them empty.
inline std::vector<std::int64_t> random_parts(std::int64_t total, std::int64_t parts,
                                              std::mt19937_64& random) {
  std::set<std::int64_t> cuts{total};
  while (std::ssize(cuts) < parts) {
    cuts.insert(1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(total - 1)));
  }
  std::vector<std::int64_t> sizes;
  std::int64_t last = 0;
  for (const std::int64_t cut : cuts) {
    sizes.push_back(cut - last);
    last = cut;
  }
  return sizes;
}

/// The chunks of one sequence on random ranks in any order, with random shares.
inline std::vector<Chunk> random_chunks(std::int64_t length, std::int64_t heads, int ranks,
                                        std::mt19937_64& random) {
  if (length == 0) return {};
  const auto most = static_cast<std::uint64_t>(std::min({length, heads, std::int64_t{ranks}}));
  const auto degree = static_cast<std::int64_t>(1 + random() % most);
  std::vector<int> bag(static_cast<std::size_t>(ranks));
  std::iota(bag.begin(), bag.end(), 0);
  std::ranges::shuffle(bag, random);
  const auto tokens = random_parts(length, degree, random);
  const auto shares = random_parts(heads, degree, random);
  std::vector<Chunk> chunks;
  Chunk next;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    next = {bag[i], next.first_token + next.tokens, tokens[i], next.first_head + next.heads,
            shares[i]};
    chunks.push_back(next);
  }
  return chunks;
}

/// A plan such as no fixed topology makes. Its sequences are those of random_lengths().
inline Plan uneven_plan(int ranks, std::int64_t heads, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> homes, lengths, offsets{0};
  std::vector<Chunk> chunks;
  for (int home = 0; home < ranks; ++home) {
    for (const std::int64_t length : random_lengths(seed, home)) {
      const auto more = random_chunks(length, heads, ranks, random);
      chunks.insert(chunks.end(), more.begin(), more.end());
      homes.push_back(home);
      lengths.push_back(length);
      offsets.push_back(std::ssize(chunks));
    }
  }
  return Plan(ranks, heads, CostModel::transformer(16), homes, lengths, offsets, chunks);
}

/// Sequences of 5, 0 and 9 tokens on each of `homes`, cut into equal chunks for some of `workers`.
inline Plan plan_between(int ranks, std::int64_t heads, const std::vector<int>& homes,
                         const std::vector<int>& workers) {
  std::vector<std::int64_t> home_of, lengths, offsets{0};
  std::vector<Chunk> chunks;
  for (const int home : homes) {
    for (const std::int64_t length : {5, 0, 9}) {
      const std::int64_t parts = std::min({length, heads, std::ssize(workers)});
      for (std::int64_t i = 0; i < parts; ++i) {
        const auto worker = static_cast<std::size_t>(i + home + length) % workers.size();
        const auto cut = [&](std::int64_t total, std::int64_t part) {
          return total * part / parts;
        };
        chunks.push_back({workers[worker], cut(length, i), cut(length, i + 1) - cut(length, i),
                          cut(heads, i), cut(heads, i + 1) - cut(heads, i)});
      }
      home_of.push_back(home);
      lengths.push_back(workers.empty() ? 0 : length);
      offsets.push_back(std::ssize(chunks));
    }
  }
  return Plan(ranks, heads, CostModel::transformer(16), home_of, lengths, offsets, chunks);
}

/// Plans in which ranks have nothing before routing, nothing after, or neither, with their names.
inline std::vector<std::pair<std::string, Plan>> idle_plans(int ranks, std::int64_t heads) {
  std::vector<int> all, even, odd, lower;
  for (int r = 0; r < ranks; ++r) {
    all.push_back(r);
    (r % 2 == 0 ? even : odd).push_back(r);
    if (2 * r < ranks) lower.push_back(r);
  }
  const auto plan = [&](const std::vector<int>& homes, const std::vector<int>& workers) {
    return plan_between(ranks, heads, homes, workers);
  };
  return {{"half have nothing before", plan(even, all)},
          {"half have nothing after", plan(all, lower)},
          {"half send to the other half", plan(even, odd)},
          {"half are idle", plan(even, even)},
          {"one sends to one", plan({ranks - 1}, {0})},
          {"no tokens", plan(all, {})},
          {"no sequences", plan({}, all)}};
}

/// Routings of many plans, with what made them in the trace of the test: those of a Balancer for
/// every topology, uneven ones, and ones that leave ranks idle.
inline void for_all_routings(const Communicator& group, std::int64_t heads,
                             const std::vector<std::uint64_t>& seeds,
                             const std::function<void(const Routing&)>& check) {
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(testing::Message() << heads << " heads, seed " << seed);
    for (const std::string& topology : topologies(group.size())) {
      SCOPED_TRACE(topology);
      check(balancer(group, topology, heads).prepare(random_lengths(seed, group.rank())));
    }
    SCOPED_TRACE("uneven plan");
    check(Routing(group, uneven_plan(group.size(), heads, seed)));
  }
  for (const auto& [name, plan] : idle_plans(group.size(), heads)) {
    SCOPED_TRACE(testing::Message() << heads << " heads, " << name);
    check(Routing(group, plan));
  }
}

/// A token of the group: its sequence in the plan's order, and its position there.
struct Token {
  std::int64_t sequence = 0;
  std::int64_t position = 0;
};

/// The tokens of this rank's home rows, and of its routed rows.
inline std::vector<Token> home_tokens(const Routing& routing) {
  std::vector<Token> tokens;
  const Plan& plan = routing.plan();
  for (std::int64_t s = 0; s < plan.sequences(); ++s) {
    if (plan.homes()[static_cast<std::size_t>(s)] != routing.group().rank()) continue;
    for (std::int64_t t = 0; t < plan.lengths()[static_cast<std::size_t>(s)]; ++t)
      tokens.push_back({s, t});
  }
  return tokens;
}
inline std::vector<Token> routed_tokens(const Routing& routing) {
  std::vector<Token> tokens;
  const Plan& plan = routing.plan();
  for (std::int64_t s = 0; s < plan.sequences(); ++s) {
    for (const Chunk& chunk : plan.chunks(s)) {
      if (chunk.rank != routing.group().rank()) continue;
      for (std::int64_t t = 0; t < chunk.tokens; ++t) tokens.push_back({s, chunk.first_token + t});
    }
  }
  return tokens;
}

/// The first token of each of this rank's home sequences, and of the sequence of each of its
/// chunks.
inline std::vector<Token> home_sequences(const Routing& routing) {
  std::vector<Token> tokens;
  for (std::int64_t s = 0; s < routing.plan().sequences(); ++s) {
    if (routing.plan().homes()[static_cast<std::size_t>(s)] == routing.group().rank())
      tokens.push_back({s, 0});
  }
  return tokens;
}
inline std::vector<Token> chunk_sequences(const Routing& routing) {
  std::vector<Token> tokens;
  for (const LocalChunk& local : routing.chunks()) tokens.push_back({local.sequence, 0});
  return tokens;
}

/// What element `column` of a token's row holds: a small integer, exact in every type used.
template <class T>
T tag(const Token& token, std::int64_t column) {
  const std::int64_t value = token.sequence * 1009 + token.position * 31 + column * 7 + 1;
  return static_cast<T>(value % (sizeof(T) == 1 ? 251 : 65521 / (sizeof(T) == 2 ? 2 : 1)));
}

/// Integers that floating-point types of 2, 4 and 8 bytes round, where T holds them; as 2-byte
/// storage, bit patterns of all kinds.
template <class T>
T awkward(const Token& token, std::int64_t column) {
  constexpr std::int64_t kBig = (std::int64_t{1} << 53) + 1;
  constexpr std::array<std::int64_t, 5> kIntegers{257, 1023, (1 << 24) + 1, -((1 << 24) + 1),
                                                  sizeof(T) == 8 ? kBig : 65537};
  const auto which = static_cast<std::size_t>(token.sequence * 3 + token.position + column);
  if constexpr (sizeof(T) == 2) {
    return static_cast<T>((which + 1) * 0x9e3779b97f4a7c15 >> 48);
  } else {
    return static_cast<T>(kIntegers[which % kIntegers.size()]);
  }
}

/// A packed view of `value(token, column)` for every element of every token's row; V is LayoutRight
/// with dynamic and static extents such that `extents` fits it.
template <class V, class Value, class... Extents>
V filled(const std::vector<Token>& tokens, const Value& value, Extents... extents) {
  V view("filled", tokens.size(), extents...);
  const std::int64_t columns =
      tokens.empty() ? 0 : static_cast<std::int64_t>(view.size() / tokens.size());
  using T = typename V::value_type;
  Kokkos::View<T*, Kokkos::HostSpace> host("host", view.size());
  for (std::size_t i = 0; i < view.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    host(i) = value(tokens[static_cast<std::size_t>(at / columns)], at % columns);
  }
  Kokkos::deep_copy(
      Kokkos::View<T*, Device, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(view.data(), view.size()),
      host);
  return view;
}

/// The same with the tag of every element.
template <class V, class... Extents>
V tagged(const std::vector<Token>& tokens, Extents... extents) {
  return filled<V>(tokens, tag<typename V::value_type>, extents...);
}

/// The elements of a contiguous view, in memory order.
template <class V>
std::vector<typename V::non_const_value_type> values(const V& view) {
  using T = typename V::non_const_value_type;
  Kokkos::View<T*, Kokkos::HostSpace> host("host", view.size());
  Kokkos::deep_copy(host, Kokkos::View<const T*, Device, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
                              view.data(), view.size()));
  return {host.data(), host.data() + host.size()};
}

}  // namespace knapformer::test
