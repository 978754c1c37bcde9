// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <gtest/gtest.h>

#include <algorithm>

#include "route/route_support.hpp"

namespace knapformer {
namespace {

using namespace test;  // NOLINT: a test file

template <class T>
using PerHead = Kokkos::View<T***, Kokkos::LayoutRight, Device>;
template <class T>
using Heads = Kokkos::View<T**, Kokkos::LayoutRight, Device>;

/// What the head buffer must hold, from the attention problems.
template <class T>
std::vector<T> expected_heads(const Routing& routing, std::int64_t d_head,
                              T (*value)(const Token&, std::int64_t) = tag<T>) {
  std::vector<T> expected(static_cast<std::size_t>(routing.head_rows() * d_head));
  for (const AttentionProblem& problem : routing.attention_problems()) {
    for (std::int64_t t = 0; t < problem.length; ++t) {
      for (std::int64_t h = 0; h < problem.heads; ++h) {
        for (std::int64_t d = 0; d < d_head; ++d) {
          const std::int64_t at = (problem.offset + t * problem.heads + h) * d_head + d;
          expected.at(static_cast<std::size_t>(at)) =
              value({problem.sequence, t}, (problem.first_head + h) * d_head + d);
        }
      }
    }
  }
  return expected;
}

template <class T>
void check(const Routing& routing, std::int64_t d_head) {
  const Device exec;
  const auto q = tagged<PerHead<T>>(routed_tokens(routing), routing.plan().heads(), d_head);
  const Heads<T> heads = routing.pre_attention(exec, q);
  EXPECT_EQ(values(heads), expected_heads<T>(routing, d_head));
  const PerHead<T> back = routing.post_attention(exec, heads);
  EXPECT_EQ(back.extent(1), q.extent(1));
  EXPECT_EQ(values(back), values(q));
}

class Attention : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(Attention, SplitsHeadsAndJoinsThemAgain) {
  for_all_routings(world(), GetParam(), {0, 1, 2}, [](const Routing& routing) {
    check<double>(routing, 4);
    check<float>(routing, 1);
    check<std::uint16_t>(routing, 3);
    check<std::uint8_t>(routing, 5);
    check<double>(routing, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(HeadCounts, Attention, ::testing::Values(1, 5, 24));

// 4 MiB that stay and as many that travel are copied past the caches.
TEST(Attention, MoreBytesThanCachesHold) {
  const Communicator all = world();
  const Communicator group = all.split(all.size() % 2 == 0 ? 2 : 1);
  const Balancer balance = balancer(group, join("g", group.size(), "n1"), 8);
  check<double>(balance.prepare(std::vector<std::int64_t>{16}), 8192);
}

TEST(Attention, IntegersBesideTwoByteTokensStayExact) {
  for_all_routings(world(), 5, {0, 1}, [](const Routing& routing) {
    const Device exec;
    const auto tokens = routed_tokens(routing);
    const auto a = filled<PerHead<std::uint16_t>>(tokens, awkward<std::uint16_t>, 5, 3);
    const auto b = filled<PerHead<std::int32_t>>(tokens, awkward<std::int32_t>, 5, 1);
    const auto c = filled<PerHead<std::int64_t>>(tokens, awkward<std::int64_t>, 5, 2);
    const auto [ha, hb, hc] = routing.pre_attention(exec, a, b, c);
    EXPECT_EQ(values(ha), expected_heads(routing, 3, awkward<std::uint16_t>));
    EXPECT_EQ(values(hb), expected_heads(routing, 1, awkward<std::int32_t>));
    EXPECT_EQ(values(hc), expected_heads(routing, 2, awkward<std::int64_t>));
    const auto [ta, tb, tc] = routing.post_attention(exec, ha, hb, hc);
    EXPECT_EQ(values(ta), values(a));
    EXPECT_EQ(values(tb), values(b));
    EXPECT_EQ(values(tc), values(c));
  });
}

TEST(Attention, ProblemsCoverEveryHeadOfEverySequenceOnce) {
  const Communicator group = world();
  for_all_routings(group, 13, {5}, [&](const Routing& routing) {
    const Plan& plan = routing.plan();
    std::vector<std::int64_t> mine(static_cast<std::size_t>(plan.sequences() * plan.heads()), 0);
    std::int64_t rows = 0;
    for (const AttentionProblem& problem : routing.attention_problems()) {
      EXPECT_EQ(problem.offset, rows);
      EXPECT_EQ(problem.length, plan.lengths()[static_cast<std::size_t>(problem.sequence)]);
      rows += problem.length * problem.heads;
      for (std::int64_t h = problem.first_head; h < problem.first_head + problem.heads; ++h) {
        mine.at(static_cast<std::size_t>(problem.sequence * plan.heads() + h)) += 1;
      }
    }
    EXPECT_EQ(rows, routing.head_rows());
    const auto all = group.all_gather(std::span<const std::int64_t>(mine));
    for (std::size_t i = 0; i < mine.size(); ++i) {
      std::int64_t owners = 0;
      for (std::size_t r = 0; r < static_cast<std::size_t>(group.size()); ++r)
        owners += all[r * mine.size() + i];
      const auto sequence = i / static_cast<std::size_t>(plan.heads());
      EXPECT_EQ(owners, plan.lengths()[sequence] > 0 ? 1 : 0);
    }
  });
}

TEST(Attention, UnsplitSequencesComeFirstAndNeedNoWait) {
  std::int64_t found = 0;
  for_all_routings(world(), 8, {3, 4}, [&](const Routing& routing) {
    const Device exec;
    for (const AttentionProblem& problem : routing.attention_problems()) {
      const bool split = routing.plan().chunks(problem.sequence).size() > 1;
      EXPECT_EQ(problem.offset >= routing.unsplit_head_rows(), split);
    }
    const auto q = tagged<PerHead<double>>(routed_tokens(routing), 8, 2);
    const Heads<double> heads("heads", static_cast<std::size_t>(routing.head_rows()), 2);
    auto pending = routing.start_pre_attention_into(exec, std::tie(heads), q);
    exec.fence();
    const auto unsplit = static_cast<std::size_t>(2 * routing.unsplit_head_rows());
    std::vector<double> early = values(heads);
    std::vector<double> expected = expected_heads<double>(routing, 2);
    early.resize(unsplit);
    expected.resize(unsplit);
    EXPECT_EQ(early, expected);
    found += routing.unsplit_head_rows();
    pending.wait();
  });
  EXPECT_GT(found, 0);
}

// On up to three ranks, out of order where there are several: 24, 13 and 11, or 9, 8 and 7 heads.
std::vector<Chunk> uneven_chunks(std::int64_t ranks) {
  if (ranks == 1) return {{0, 0, 120, 0, 24}};
  if (ranks == 2) return {{1, 0, 65, 0, 13}, {0, 65, 55, 13, 11}};
  return {{ranks - 1, 0, 45, 0, 9}, {0, 45, 40, 9, 8}, {1, 85, 35, 17, 7}};
}

TEST(Attention, UnevenSharesOfHeads) {
  const Communicator group = world();
  const std::vector<Chunk> chunks = uneven_chunks(group.size());
  const std::int64_t home = std::min<std::int64_t>(1, group.size() - 1);
  const Routing routing(group, Plan(group.size(), 24, CostModel::transformer(16), {home}, {120},
                                    {0, std::ssize(chunks)}, chunks));
  for (const Chunk& chunk : chunks) {
    if (chunk.rank != group.rank()) continue;
    ASSERT_EQ(routing.attention_problems().size(), 1u);
    EXPECT_EQ(routing.attention_problems().front().heads, chunk.heads);
    EXPECT_EQ(routing.routed_rows(), chunk.tokens);
    EXPECT_EQ(routing.head_rows(), 120 * chunk.heads);
    EXPECT_EQ(routing.attention_rows_sent(), chunk.tokens * (24 - chunk.heads));
    EXPECT_EQ(routing.attention_rows_returned(), (120 - chunk.tokens) * chunk.heads);
  }
  check<double>(routing, 4);
  check<std::uint8_t>(routing, 3);
}

TEST(Attention, SeveralViewsOfDifferentTypesTravelTogether) {
  const Communicator group = world();
  const Balancer balance = balancer(group, join("g", group.size(), "n1"), 9);
  const Routing routing = balance.prepare(random_lengths(6, group.rank()));
  const Device exec;
  const auto q = tagged<PerHead<double>>(routed_tokens(routing), 9, 6);
  const auto k = tagged<PerHead<float>>(routed_tokens(routing), 9, 5);
  auto [hq, hk] = routing.pre_attention(exec, q, k);
  EXPECT_EQ(values(hq), expected_heads<double>(routing, 6));
  EXPECT_EQ(values(hk), expected_heads<float>(routing, 5));
  auto [tq, tk] = routing.post_attention(exec, hq, hk);
  EXPECT_EQ(values(tq), values(q));
  EXPECT_EQ(values(tk), values(k));
}

}  // namespace
}  // namespace knapformer
