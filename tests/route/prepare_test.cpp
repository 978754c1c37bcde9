// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Routings that are prepared while other things go on.

#include <gtest/gtest.h>

#include <memory>

#include "route/route_support.hpp"
#include "support/count_collectives.hpp"

namespace knapformer {
namespace {

using namespace test;  // NOLINT: a test file

using Lengths = std::vector<std::int64_t>;
using Matrix = Kokkos::View<double**, Kokkos::LayoutRight, Device>;

class Prepare : public ::testing::Test {
 protected:
  std::string last_rank() const { return join("rank ", last); }
  Lengths lengths(std::uint64_t seed) const { return random_lengths(seed, group.rank()); }

  /// Returns when all ranks have started what they started before, and it has been looked at.
  void let_it_arrive() const {
    for (int i = 0; i < 100; ++i) group.barrier();
  }

  Communicator group = world();
  int last = group.size() - 1;
  bool culprit = group.rank() == last;
  std::string topology = join("g1n", group.size());
  Balancer balance = balancer(group, topology, 4);
};

TEST_F(Prepare, TakesOneCollectiveAStep) {
  const auto calls_for = [&](std::size_t sequences) {
    const int before = collective_calls;
    const Routing routing = balance.prepare(Lengths(sequences, 7));
    balance.observe(routing, 0.5);
    return collective_calls - before;
  };
  for (const std::size_t few : {3u, 0u, 64u, 1u}) EXPECT_EQ(calls_for(few), 1) << few;
  EXPECT_GT(calls_for(culprit ? 200 : 2), 1);
  for (const std::size_t many : {200u, 256u, 5u}) EXPECT_EQ(calls_for(many), 1) << many;
  const int before = collective_calls;
  balance.start_prepare(Lengths{1, 2}).wait();
  EXPECT_EQ(collective_calls - before, 1);
}

TEST_F(Prepare, StartedGivesTheSameAndExchangesGoOnMeanwhile) {
  const Device exec;
  const Routing now = balance.prepare(lengths(1));
  const auto home = tagged<Matrix>(home_tokens(now), 6);
  auto exchange = now.start_route(exec, home);
  PendingRouting next = balance.start_prepare(lengths(2));
  PendingRouting after_next = balance.start_prepare(lengths(3));
  const auto routed = exchange.wait();
  exchange = now.start_reverse_route(exec, routed);
  EXPECT_EQ(after_next.wait().plan().hash(), balance.prepare(lengths(3)).plan().hash());
  EXPECT_EQ(values(exchange.wait()), values(home));
  const Routing second = next.wait();
  EXPECT_EQ(second.plan().hash(), balance.prepare(lengths(2)).plan().hash());
  EXPECT_EQ(values(second.route(exec, tagged<Matrix>(home_tokens(second), 6))),
            values(tagged<Matrix>(routed_tokens(second), 6)));
  EXPECT_TRUE(contains(error_of([&] { next.wait(); }), "once"));
}

TEST_F(Prepare, IsDoneWhenItIsWaitedFor) {
  PendingRouting next = balance.start_prepare(lengths(5));
  let_it_arrive();
  const double hidden = group.times().hidden.elapsed;
  const int before = test_calls;
  const Routing routing = next.wait();
  EXPECT_EQ(test_calls, before) << "the lengths of all ranks were there";
  EXPECT_GT(group.times().hidden.elapsed, hidden);
  EXPECT_EQ(routing.plan().hash(), balance.prepare(lengths(5)).plan().hash());
}

TEST_F(Prepare, RoomGrowsInTheOrderOfTheCalls) {
  const auto count = [](PendingRouting pending) { return pending.wait().plan().sequences(); };
  const auto many = [&](std::size_t n) { return Lengths(culprit ? n : 1, 3); };
  PendingRouting small = balance.start_prepare(Lengths{1});
  PendingRouting large = balance.start_prepare(many(300));
  PendingRouting larger = balance.start_prepare(many(5000));
  let_it_arrive();
  EXPECT_EQ(count(std::move(larger)), 5000 + last);
  PendingRouting after = balance.start_prepare(many(5000));
  EXPECT_EQ(count(std::move(small)), group.size());
  EXPECT_EQ(count(std::move(large)), 300 + last);
  EXPECT_EQ(count(std::move(after)), 5000 + last);
  const int before = collective_calls;
  balance.prepare(many(5000));
  EXPECT_EQ(collective_calls - before, 1) << "the room stays";
}

TEST_F(Prepare, FailsAlikeOnAllRanksWheneverItIsWaitedFor) {
  BalancerOptions options{.topology = Topology::parse(topology), .max_tokens_per_rank = 9};
  const Balancer capped(group, options);
  for (const bool arrives : {false, true}) {
    PendingRouting bad = balance.start_prepare(culprit ? Lengths{3, -7} : Lengths{1});
    PendingRouting good = balance.start_prepare(Lengths{1, 2});
    PendingRouting impossible = capped.start_prepare(Lengths(2, 5));
    if (arrives) let_it_arrive();
    EXPECT_EQ(error_of([&] { bad.wait(); }),
              last_rank() + ": the length of sequence 1 is -7; lengths are not negative");
    EXPECT_EQ(good.wait().plan().sequences(), 2 * group.size());
    const std::string message = error_of([&] { impossible.wait(); });
    EXPECT_TRUE(contains(message, "9")) << message;
    EXPECT_TRUE(same_everywhere(message));
  }
  EXPECT_EQ(balance.prepare(Lengths{4}).plan().sequences(), group.size());
}

TEST_F(Prepare, AbandonedHoldsNothingUp) {
  for (const std::size_t sequences : {2u, 1000u}) {
    for (const bool arrives : {false, true}) {
      {
        PendingRouting first = balance.start_prepare(Lengths(sequences, 3));
        PendingRouting second = balance.start_prepare(Lengths(1, -3));
        if (arrives) let_it_arrive();
        first = std::move(second);
      }
      EXPECT_EQ(balance.prepare(Lengths(3, 3)).plan().sequences(), 3 * group.size());
    }
  }
  {
    const Communicator shortlived = world();
    balancer(shortlived, topology, 4).start_prepare(Lengths(70, 3));
  }
}

TEST_F(Prepare, ARankThatFailsIsNamedByThoseThatWait) {
  if (group.size() == 1) return;
  PendingRouting pending = balance.start_prepare(Lengths{1});
  MPI_Barrier(MPI_COMM_WORLD);  // nobody fails before all have started
  const std::string message = error_of([&] {
    if (culprit) group.fail("no more");
    pending.wait();
    balance.start_prepare(Lengths{2}).wait();
  });
  EXPECT_EQ(message, last_rank() + ": no more");
}

TEST_F(Prepare, RanksMustUseTheSameBalancer) {
  if (group.size() == 1) return;
  const Balancer other = balancer(group, topology, 8);
  const std::string message = error_of([&] { (culprit ? other : balance).prepare(Lengths{1, 2}); });
  EXPECT_TRUE(contains(message, "the options of " + last_rank() + " are not those of rank 0"))
      << message;
  EXPECT_TRUE(same_everywhere(message));
  EXPECT_EQ(balance.prepare(Lengths{4}).plan().sequences(), group.size());
}

}  // namespace
}  // namespace knapformer
