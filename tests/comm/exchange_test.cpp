// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <gtest/gtest.h>

#include <knapformer/comm/communicator.hpp>
#include <random>
#include <vector>

#include "support/mpi_test.hpp"

namespace knapformer {
namespace {

using Exec = Kokkos::DefaultExecutionSpace;
using Buffer = Kokkos::View<std::byte*, Exec>;
using HostBuffer = Kokkos::View<std::byte*, Kokkos::HostSpace>;
using test::world;

/// The byte at `position` of range `range` from rank `from` to rank `to`.
std::byte tag(int from, int to, std::int64_t range, std::int64_t position) {
  const auto value = static_cast<std::uint64_t>(position) * 31 +
                     static_cast<std::uint64_t>(range) * 7 +
                     static_cast<std::uint64_t>(from) * 101 + static_cast<std::uint64_t>(to) * 57;
  return static_cast<std::byte>(value * 0x9e3779b97f4a7c15 >> 56);
}

/// Empty, short, and about as long as ranges must be to travel alone; not that if they would be cut
/// into very many parts.
std::int64_t random_bytes(std::mt19937_64& random, std::int64_t message_bytes) {
  const auto below = [&](std::uint64_t bound) {
    return static_cast<std::int64_t>(random() % bound);
  };
  if (below(5) == 0) return 0;
  return below(3) > 0 || message_bytes < 64 ? below(200) : (std::int64_t{8} << 10) - 1 + below(3);
}

/// A random exchange that all ranks know: the sizes of the ranges of each pair.
class RandomExchange {
 public:
  RandomExchange(const Communicator& group, std::uint64_t seed) : rank_(group.rank()) {
    std::mt19937_64 random(seed);
    const auto ranks = static_cast<std::size_t>(group.size());
    sizes_.assign(ranks, std::vector<std::vector<std::int64_t>>(ranks));
    std::size_t sent = 0;
    std::size_t received = 0;
    for (std::size_t a = 0; a < ranks; ++a) {
      for (std::size_t b = 0; b < ranks; ++b) {
        const auto ranges = random() % 3 == 0 ? 0 : random() % 4;  // many pairs stay silent
        for (std::size_t i = 0; i < ranges; ++i) {
          sizes_[a][b].push_back(random_bytes(random, group.options().message_bytes));
          if (static_cast<int>(a) == rank_) sent += static_cast<std::size_t>(sizes_[a][b].back());
          if (static_cast<int>(b) == rank_)
            received += static_cast<std::size_t>(sizes_[a][b].back());
        }
      }
    }
    sent_ = Buffer("sent", sent);
    received_ = Buffer("received", received);
    fill();
  }

  Request start(const Communicator& group, std::uint64_t fingerprint) const {
    return group.start_exchange(Exec(), sends_, receives_, fingerprint);
  }

  void check() const {
    HostBuffer host("host", received_.size());
    Kokkos::deep_copy(host, received_);
    std::size_t next = 0;
    std::size_t wrong = 0;
    for (std::size_t a = 0; a < sizes_.size(); ++a) {
      const auto& ranges = sizes_[a][static_cast<std::size_t>(rank_)];
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        for (std::int64_t p = 0; p < ranges[i]; ++p) {
          wrong += host(next++) != tag(static_cast<int>(a), rank_, static_cast<std::int64_t>(i), p);
        }
      }
    }
    EXPECT_EQ(wrong, 0u) << "of " << next << " bytes";
  }

 private:
  void fill() {
    HostBuffer host("host", sent_.size());
    std::size_t next = 0;
    std::byte* into = received_.data();
    for (std::size_t b = 0; b < sizes_.size(); ++b) {
      const auto& ranges = sizes_[static_cast<std::size_t>(rank_)][b];
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        sends_.push_back({static_cast<int>(b), sent_.data() + next, ranges[i]});
        for (std::int64_t p = 0; p < ranges[i]; ++p) {
          host(next++) = tag(rank_, static_cast<int>(b), static_cast<std::int64_t>(i), p);
        }
      }
    }
    for (std::size_t a = 0; a < sizes_.size(); ++a) {
      for (const std::int64_t bytes : sizes_[a][static_cast<std::size_t>(rank_)]) {
        receives_.push_back({static_cast<int>(a), into, bytes});
        into += bytes;
      }
    }
    Kokkos::deep_copy(sent_, host);
  }

  int rank_;
  std::vector<std::vector<std::vector<std::int64_t>>> sizes_;  // [from][to][range]
  Buffer sent_;
  Buffer received_;
  std::vector<SendRange> sends_;
  std::vector<ReceiveRange> receives_;
};

TEST(Exchange, DeliversRandomRangesInAnyPartsAndThroughTheHost) {
  for (const std::int64_t part :
       {std::int64_t{1} << 30, std::int64_t{64}, std::int64_t{7}, std::int64_t{1}}) {
    for (const bool direct : {true, false}) {
      CommunicatorOptions options;
      options.message_bytes = part;
      options.direct = direct;
      const Communicator group = world(options);
      for (std::uint64_t seed = 0; seed < 5; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", parts of " << part);
        const RandomExchange exchange(group, seed);
        exchange.start(group, seed).wait();
        exchange.check();
      }
    }
  }
}

TEST(Exchange, RequestsInFlightDoNotMix) {
  CommunicatorOptions options;
  options.message_bytes = 16;
  const Communicator group = world(options);
  constexpr std::uint64_t kCount = 12;
  std::vector<RandomExchange> exchanges;
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < kCount; ++i) exchanges.emplace_back(group, 100 + i);
  for (std::uint64_t i = 0; i < kCount; ++i) requests.push_back(exchanges[i].start(group, i));
  // Every rank waits in an order of its own, with collectives in between.
  std::vector<std::size_t> order(kCount);
  for (std::size_t i = 0; i < kCount; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(),
               std::mt19937_64(static_cast<std::uint64_t>(group.rank())));
  for (const std::size_t i : order) {
    requests[i].wait();
    requests[i].wait();  // does nothing
    exchanges[i].check();
    group.barrier();
  }
}

TEST(Exchange, KeepsMemoryAliveAndCallsThenOnce) {
  const Communicator group = world();
  const int right = (group.rank() + 1) % group.size();
  const int left = (group.rank() + group.size() - 1) % group.size();
  int calls = 0;
  std::weak_ptr<Buffer> watched;
  Buffer received("received", 100);
  {
    auto sent = std::make_shared<Buffer>("sent", 100);
    Kokkos::deep_copy(*sent, static_cast<std::byte>(group.rank() + 1));
    watched = sent;
    const SendRange send{right, sent->data(), 100};
    const ReceiveRange receive{left, received.data(), 100};
    Request request =
        group.start_exchange(Exec(), {&send, 1}, {&receive, 1}, 1, sent, [&] { ++calls; });
    sent.reset();
    EXPECT_FALSE(watched.expired());
    EXPECT_EQ(calls, 0);
    Request moved = std::move(request);
    request.wait();  // has nothing to wait for any more
    EXPECT_EQ(calls, 0);
  }  // the destructor waits
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(watched.expired());
  HostBuffer host("host", 100);
  Kokkos::deep_copy(host, received);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(host(i), static_cast<std::byte>(left + 1));
}

TEST(Exchange, OwnRangesMayBeCutDifferentlyOnTheTwoSides) {
  const Communicator group = world();
  const int me = group.rank();
  Buffer from("from", 10);
  Buffer to("to", 10);
  HostBuffer host("host", 10);
  for (int i = 0; i < 10; ++i) host(i) = static_cast<std::byte>(i + 1);
  Kokkos::deep_copy(from, host);
  const std::vector<SendRange> sends{
      {me, from.data(), 3}, {me, from.data() + 3, 0}, {me, from.data() + 3, 7}};
  const std::vector<ReceiveRange> receives{
      {me, to.data(), 0}, {me, to.data(), 8}, {me, to.data() + 8, 2}};
  group.start_exchange(Exec(), sends, receives, 0).wait();
  Kokkos::deep_copy(host, to);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(host(i), static_cast<std::byte>(i + 1));
}

TEST(Exchange, OwnBytesTooManyForCachesComeToo) {
  const Communicator group = world();
  const int me = group.rank();
  constexpr std::int64_t kBytes = (std::int64_t{5} << 20) + 3;
  Buffer from("from", kBytes);
  Buffer to("to", kBytes + 1);
  HostBuffer sent("sent", kBytes);
  for (std::int64_t i = 0; i < kBytes; ++i) sent(i) = tag(me, me, 0, i);
  Kokkos::deep_copy(from, sent);
  const SendRange send{me, from.data(), kBytes};
  const std::vector<ReceiveRange> receives{{me, to.data() + 1, 1000},
                                           {me, to.data() + 1001, kBytes - 1000}};
  group.start_exchange(Exec(), {&send, 1}, receives, 0).wait();
  HostBuffer received("received", kBytes + 1);
  Kokkos::deep_copy(received, to);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < kBytes; ++i) wrong += received(i + 1) != sent(i);
  EXPECT_EQ(wrong, 0);
}

TEST(Exchange, ScratchIsUsedAgain) {
  const Communicator group = world();
  const Exec exec;
  EXPECT_EQ(group.scratch(exec, 0), nullptr);
  std::byte* first = group.scratch(exec, 1000).get();
  EXPECT_EQ(group.scratch(exec, 900).get(), first);
  const auto held = group.scratch(exec, 900);
  EXPECT_EQ(held.get(), first);
  EXPECT_NE(group.scratch(exec, 900).get(), first);
}

}  // namespace
}  // namespace knapformer
