// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <gtest/gtest.h>

#include <optional>
#include <tuple>
#include <type_traits>

#include "route/route_support.hpp"

namespace knapformer {
namespace {

using namespace test;  // NOLINT: a test file

using Doubles = Kokkos::View<double**, Kokkos::LayoutRight, Device>;
using Floats = Kokkos::View<float*, Kokkos::LayoutRight, Device>;
using Positions = Kokkos::View<std::int32_t* [3], Kokkos::LayoutRight, Device>;
using Halves = Kokkos::View<std::uint16_t**, Kokkos::LayoutRight, Device>;  // bfloat16, stored
using Integers = Kokkos::View<std::int32_t*, Kokkos::LayoutRight, Device>;
using LongIntegers = Kokkos::View<std::int64_t**, Kokkos::LayoutRight, Device>;
using Bytes = Kokkos::View<std::uint8_t***, Kokkos::LayoutRight, Device>;

const std::vector<std::uint64_t> kSeeds{0, 1, 2, 3, 4, 5};

TEST(Route, MovesEveryRowOfEveryTypeAndBack) {
  for_all_routings(world(), 11, kSeeds, [](const Routing& routing) {
    const Device exec;
    const auto home = home_tokens(routing);
    const auto routed = routed_tokens(routing);
    ASSERT_EQ(routing.home_rows(), static_cast<std::int64_t>(home.size()));
    ASSERT_EQ(routing.routed_rows(), static_cast<std::int64_t>(routed.size()));
    const auto a = tagged<Doubles>(home, 5);
    const auto b = tagged<Floats>(home);
    const auto c = tagged<Positions>(home);
    const auto d = tagged<Bytes>(home, 2, 3);
    const Kokkos::View<const double**, Kokkos::LayoutRight, Device> read_only = a;

    auto [ra, rb, rc, rd] = routing.route(exec, read_only, b, c, d);
    static_assert(std::is_same_v<decltype(ra), Doubles> && std::is_same_v<decltype(rc), Positions>);
    EXPECT_EQ(values(ra), values(tagged<Doubles>(routed, 5)));
    EXPECT_EQ(values(rb), values(tagged<Floats>(routed)));
    EXPECT_EQ(values(rc), values(tagged<Positions>(routed)));
    EXPECT_EQ(values(rd), values(tagged<Bytes>(routed, 2, 3)));

    auto pending = routing.start_reverse_route(exec, ra, rb);
    auto pending_too = routing.start_reverse_route(exec, rc, rd);
    auto [hc, hd] = pending_too.wait();
    auto [ha, hb] = pending.wait();
    EXPECT_EQ(values(ha), values(a));
    EXPECT_EQ(values(hb), values(b));
    EXPECT_EQ(values(hc), values(c));
    EXPECT_EQ(values(hd), values(d));
  });
}

TEST(Route, Bfloat16KeepsEveryBit) {
  for_all_routings(world(), 11, {0, 1}, [](const Routing& routing) {
    const auto patterns = [](const std::vector<Token>& tokens) {  // NaN among them
      return filled<Kokkos::View<bfloat16**, Kokkos::LayoutRight, Device>>(
          tokens,
          [](const Token& token, std::int64_t column) {
            return std::bit_cast<bfloat16>(awkward<std::uint16_t>(token, column));
          },
          7);
    };
    const auto bits = [](const auto& view) {
      std::vector<std::uint16_t> out;
      for (const bfloat16 value : values(view)) out.push_back(std::bit_cast<std::uint16_t>(value));
      return out;
    };
    const auto home = patterns(home_tokens(routing));
    const auto routed = routing.route(Device(), home);
    EXPECT_EQ(bits(routed), bits(patterns(routed_tokens(routing))));
    EXPECT_EQ(bits(routing.reverse_route(Device(), routed)), bits(home));
  });
}

TEST(Route, IntegersBesideTwoByteTokensStayExact) {
  for_all_routings(world(), 11, {0, 1}, [](const Routing& routing) {
    const Device exec;
    const auto awkward_views = [](const std::vector<Token>& tokens) {
      return std::tuple(filled<Halves>(tokens, awkward<std::uint16_t>, 6),
                        filled<Integers>(tokens, awkward<std::int32_t>),
                        filled<LongIntegers>(tokens, awkward<std::int64_t>, 2));
    };
    const auto [a, b, c] = awkward_views(home_tokens(routing));
    const auto [xa, xb, xc] = awkward_views(routed_tokens(routing));
    const auto [ra, rb, rc] = routing.route(exec, a, b, c);
    EXPECT_EQ(values(ra), values(xa));
    EXPECT_EQ(values(rb), values(xb));
    EXPECT_EQ(values(rc), values(xc));
    const auto [ha, hb, hc] = routing.reverse_route(exec, ra, rb, rc);
    EXPECT_EQ(values(ha), values(a));
    EXPECT_EQ(values(hb), values(b));
    EXPECT_EQ(values(hc), values(c));
  });
}

TEST(Route, ChunksSayWhichRowsAreWhose) {
  for_all_routings(world(), 11, kSeeds, [](const Routing& routing) {
    const auto routed = routed_tokens(routing);
    std::size_t row = 0;
    for (const LocalChunk& local : routing.chunks()) {
      ASSERT_EQ(local.first_row, static_cast<std::int64_t>(row));
      for (std::int64_t t = 0; t < local.chunk.tokens; ++t, ++row) {
        ASSERT_EQ(routed[row].sequence, local.sequence);
        ASSERT_EQ(routed[row].position, local.chunk.first_token + t);
      }
    }
    EXPECT_EQ(row, routed.size());
  });
}

TEST(Route, CountsWhatLeavesTheRank) {
  const Communicator group = world();
  for_all_routings(group, 11, kSeeds, [&](const Routing& routing) {
    const std::vector<std::int64_t> mine{routing.routed_away_rows(), routing.routed_back_rows(),
                                         routing.attention_rows_sent(),
                                         routing.attention_rows_returned()};
    const auto all = group.all_gather(std::span<const std::int64_t>(mine));
    std::vector<std::int64_t> sum(4, 0);
    for (std::size_t i = 0; i < all.size(); ++i) sum[i % 4] += all[i];
    const PlanReport& report = routing.plan().report();
    EXPECT_EQ(sum[0], report.moved_tokens);
    EXPECT_EQ(sum[1], report.moved_tokens);
    EXPECT_EQ(sum[2], sum[3]);
    const double whole_rows =
        static_cast<double>(sum[2]) / static_cast<double>(routing.plan().heads());
    EXPECT_NEAR(whole_rows, report.ulysses_tokens, 1e-9 * (1 + whole_rows));
  });
}

TEST(Route, TakesViewsWithoutWidth) {
  for_all_routings(world(), 11, kSeeds, [](const Routing& routing) {
    const Device exec;
    const Doubles empty("empty", static_cast<std::size_t>(routing.home_rows()), 0);
    const auto b = tagged<Floats>(home_tokens(routing));
    auto [re, rb] = routing.route(exec, empty, b);
    EXPECT_EQ(re.extent(0), static_cast<std::size_t>(routing.routed_rows()));
    EXPECT_EQ(re.extent(1), 0u);
    EXPECT_EQ(values(rb), values(tagged<Floats>(routed_tokens(routing))));
    EXPECT_EQ(routing.route(exec, empty).extent(1), 0u);
  });
}

TEST(Route, OutlivesItsBalancerAndKeepsItsPlan) {
  const Communicator group = world();
  std::optional<Routing> first;
  std::optional<Routing> second;
  {
    const Balancer balance = balancer(group, join("g", group.size(), "n1"), 8);
    first.emplace(balance.prepare(random_lengths(1, group.rank())));
    second.emplace(balance.prepare(random_lengths(2, group.rank())));
  }
  for (const Routing& routing : {*second, *first}) {
    const auto routed = routing.route(Device(), tagged<Doubles>(home_tokens(routing), 2));
    EXPECT_EQ(values(routed), values(tagged<Doubles>(routed_tokens(routing), 2)));
  }
}

TEST(Route, WithoutBalancingNothingMoves) {
  const Communicator group = world();
  const Balancer balance(group, {.topology = Topology::singles(group.size()), .balance = false});
  const Routing routing = balance.prepare(random_lengths(3, group.rank()));
  EXPECT_EQ(routing.routed_away_rows(), 0);
  const auto home = tagged<Doubles>(home_tokens(routing), 2);
  EXPECT_EQ(values(routing.route(Device(), home)), values(home));
}

}  // namespace
}  // namespace knapformer
