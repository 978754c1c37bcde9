// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <gtest/gtest.h>

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
std::vector<T> expected_heads(const Routing& routing, std::int64_t d_head) {
  std::vector<T> expected(static_cast<std::size_t>(routing.head_rows() * d_head));
  for (const AttentionProblem& problem : routing.attention_problems()) {
    for (std::int64_t t = 0; t < problem.length; ++t) {
      for (std::int64_t h = 0; h < problem.heads; ++h) {
        for (std::int64_t d = 0; d < d_head; ++d) {
          const std::int64_t at = (problem.offset + t * problem.heads + h) * d_head + d;
          expected.at(static_cast<std::size_t>(at)) =
              tag<T>({problem.sequence, t}, (problem.first_head + h) * d_head + d);
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
  const Communicator group = world();
  const std::int64_t heads = GetParam();
  for (const std::string& topology : topologies(group.size())) {
    const Balancer balance = balancer(group, topology, heads);
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(testing::Message() << topology << ", " << heads << " heads, seed " << seed);
      const Routing routing = balance.prepare(random_lengths(seed, group.rank()));
      check<double>(routing, 4);
      check<float>(routing, 1);
      check<std::uint16_t>(routing, 3);
      check<std::uint8_t>(routing, 5);
      check<double>(routing, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(HeadCounts, Attention, ::testing::Values(1, 5, 24));

TEST(Attention, ProblemsCoverEveryHeadOfEverySequenceOnce) {
  const Communicator group = world();
  for (const std::string& topology : topologies(group.size())) {
    const Routing routing = balancer(group, topology, 13).prepare(random_lengths(5, group.rank()));
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
  }
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
