// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The NCCL transport on the test double of NCCL. The program holds the other tests of communicators
// too, and the double watches over all of them.

#include <gtest/gtest.h>
#include <nccl.h>

#include <knapformer/comm/communicator.hpp>
#include <vector>

#include "comm/transport_choice.hpp"
#include "nccl_double.hpp"
#include "support/mpi_test.hpp"

namespace knapformer {
namespace {

using Exec = Kokkos::DefaultExecutionSpace;
using Buffer = Kokkos::View<std::byte*, Exec>;
using test::contains;
using test::error_of;
using test::impatient;
using test::join;
using test::same_everywhere;
using test::world;

/// After every test of the program: NCCL was used as it wants to be.
class Watch : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo&) override {
    for (const std::string& text : nccl_double::misuse())
      ADD_FAILURE() << "misuse of NCCL: " << text;
    nccl_double::reset();
  }
};
const bool watching = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Watch);
  return true;
}();

/// Every rank sends `ranges` ranges to every other; byte i of range k from a to b is a + b + k + i.
class AllToAll {
 public:
  AllToAll(const Communicator& group, int ranges, std::int64_t bytes)
      : rank_(group.rank()), ranges_(ranges), bytes_(bytes) {
    const auto total = static_cast<std::size_t>(group.size() * ranges * bytes);
    sent_ = Buffer("sent", total);
    received_ = Buffer("received", total);
    const auto host = Kokkos::create_mirror_view(sent_);
    std::int64_t next = 0;
    for (int peer = 0; peer < group.size(); ++peer) {
      for (int k = 0; k < ranges; ++k) {
        sends_.push_back({peer, sent_.data() + next, bytes});
        receives_.push_back({peer, received_.data() + next, bytes});
        for (std::int64_t i = 0; i < bytes; ++i) {
          host(static_cast<std::size_t>(next++)) = value(peer, k, i);
        }
      }
    }
    Kokkos::deep_copy(sent_, host);
  }
  Request start(const Communicator& group) const {
    return group.start_exchange(Exec(), sends_, receives_, 1);
  }
  bool is_right() const {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), received_);
    std::size_t next = 0;
    bool right = true;
    for (int peer = 0; next < host.size(); ++peer) {
      for (int k = 0; k < ranges_; ++k) {
        for (std::int64_t i = 0; i < bytes_; ++i)
          right = right && host(next++) == value(peer, k, i);
      }
    }
    return right;
  }

 private:
  std::byte value(int peer, int k, std::int64_t i) const {
    return static_cast<std::byte>(rank_ + peer + k + i);
  }
  int rank_;
  int ranges_;
  std::int64_t bytes_;
  Buffer sent_;
  Buffer received_;
  std::vector<SendRange> sends_;
  std::vector<ReceiveRange> receives_;
};

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    culprit = size - 1;
  }
  int size = 1;
  int rank = 0;
  int culprit = 0;
};

TEST(TransportChoice, IsAFunctionOfWhatAllRanksOffer) {
  const auto offer = [](TransportKind wanted, std::uint64_t device) {
    return TransportOffer{wanted, true, true, 1, device};
  };
  using enum TransportKind;
  std::vector<TransportOffer> offers{offer(kAuto, 1), offer(kAuto, 2)};
  EXPECT_EQ(choose_transport(offers), kNccl);
  EXPECT_EQ(choose_transport(std::span(offers).first(1)), kMpi);
  offers[1].device = 1;
  EXPECT_EQ(choose_transport(offers), kMpi);
  offers[1].host = 2;  // the same slot of another host
  EXPECT_EQ(choose_transport(offers), kNccl);

  const auto error = [&] { return error_of([&] { choose_transport(offers); }); };
  offers[0].wanted = kNccl;
  EXPECT_EQ(error(), "communicator: the transport is kAuto on rank 1 and kNccl on rank 0");
  offers[1].wanted = kNccl;
  EXPECT_EQ(choose_transport(offers), kNccl);
  EXPECT_EQ(choose_transport(std::span(offers).first(1)), kNccl);
  offers[1].host = 1;
  EXPECT_TRUE(contains(error(), "ranks 0 and 1 share a GPU")) << error();
  offers[1].has_device = false;
  EXPECT_TRUE(contains(error(), "device memory of rank 1 is not CUDA's")) << error();
  offers[1].nccl_built_in = false;
  EXPECT_TRUE(contains(error(), "not built in on rank 1")) << error();
  offers[0].wanted = offers[1].wanted = kAuto;
  EXPECT_EQ(choose_transport(offers), kMpi);
}

TEST_F(Nccl, IsUsedWhereEachRankHasADevice) {
  CommunicatorOptions options;
  EXPECT_EQ(world().transport(), size > 1 ? TransportKind::kNccl : TransportKind::kMpi);
  options.transport = TransportKind::kNccl;
  EXPECT_EQ(world(options).transport(), TransportKind::kNccl);
  options.transport = TransportKind::kMpi;
  EXPECT_EQ(world(options).transport(), TransportKind::kMpi);
  if (size == 1) return;
  options.transport = rank == culprit ? TransportKind::kMpi : TransportKind::kAuto;
  const auto message = error_of([&] { world(options); });
  EXPECT_TRUE(contains(message, join("kMpi on rank ", culprit, " and kAuto"))) << message;
  nccl_double::share_devices();
  EXPECT_EQ(world().transport(), TransportKind::kMpi);
  options.transport = TransportKind::kNccl;
  EXPECT_TRUE(contains(error_of([&] { world(options); }), "ranks 0 and 1 share a GPU"));
}

TEST_F(Nccl, LeavesNoCommunicatorBehind) {
  {
    const Communicator group = world();
    EXPECT_EQ(nccl_double::live_communicators(), size > 1 ? 1 : 0);
    if (size % 2 == 0) {
      const Communicator part = group.split(2);
      EXPECT_EQ(part.transport(), TransportKind::kNccl);
      EXPECT_EQ(nccl_double::live_communicators(), 2);
      const AllToAll in_part(part, 2, 50);
      const AllToAll in_group(group, 2, 50);
      Request first = in_part.start(part);
      Request second = in_group.start(group);
      second.wait();
      first.wait();
      EXPECT_TRUE(in_part.is_right() && in_group.is_right());
    }
  }
  EXPECT_EQ(nccl_double::live_communicators(), 0);
}

TEST_F(Nccl, SplitsLargeExchangesIntoGroups) {
  if (size == 1) return;
  const Communicator group = world();
  nccl_double::reset();
  const AllToAll exchange(group, 1100, 3);
  exchange.start(group).wait();
  EXPECT_TRUE(exchange.is_right());
  const int per_pair = 1024 / (size - 1);
  EXPECT_EQ(nccl_double::groups(), (1100 + per_pair - 1) / per_pair);
  EXPECT_EQ(nccl_double::largest_group(), 2 * (size - 1) * per_pair);
}

TEST_F(Nccl, ConnectsTheNearestPeersBeforehandAndOthersWhenNeeded) {
  if (size == 1) return;
  for (const int peers : {0, 2, 3, 64}) {
    CommunicatorOptions options;
    options.nccl_peers = peers;
    const Communicator group = world(options);
    EXPECT_EQ(nccl_double::connections(), std::min(size - 1, (peers + 1) / 2 * 2));
    const AllToAll exchange(group, 1, 10);
    exchange.start(group).wait();
    EXPECT_TRUE(exchange.is_right());
    EXPECT_EQ(nccl_double::connections(), size - 1);
  }
  CommunicatorOptions options;
  options.nccl_peers = rank == culprit ? 2 : 4;
  EXPECT_TRUE(
      contains(error_of([&] { world(options); }), join("nccl_peers is 2 on rank ", culprit)));
  options.nccl_peers = -1;
  EXPECT_TRUE(contains(error_of([&] { world(options); }), "nccl_peers is -1"));
}

TEST_F(Nccl, AnExchangeThatOneSideKnowsNothingOfIsNamed) {
  if (size == 1) return;
  const Communicator group = world(impatient());
  const Buffer buffer("buffer", 1);
  std::vector<SendRange> sends;
  if (rank == 0) sends = {{culprit, buffer.data(), 1}};
  const auto message = error_of([&] {
    group.start_exchange(Exec(), sends, {}, 1).wait();
    group.barrier();
  });
  EXPECT_TRUE(contains(message, join("with rank ", culprit)) || contains(message, "barrier"))
      << message;
  EXPECT_TRUE(same_everywhere(message));
}

/// Uses everything that NCCL is used for.
void use_all() {
  const Communicator group(MPI_COMM_WORLD);
  AllToAll(group, 2, 10).start(group).wait();
  group.all_reduce_sum(Exec(), Kokkos::View<float*, Exec>("view", 10));
  group.barrier();
}

TEST_F(Nccl, AnErrorOfAnyCallIsThatOfAllRanks) {
  if (size == 1) return;
  const int before = nccl_double::calls();
  EXPECT_EQ(error_of(use_all), "");
  int calls = nccl_double::calls() - before;
  MPI_Bcast(&calls, 1, MPI_INT, culprit, MPI_COMM_WORLD);
  EXPECT_GT(calls, 10);
  for (int n = 1; n < calls; ++n) {  // the last one is in a destructor
    SCOPED_TRACE(testing::Message() << "call " << n << " of " << calls);
    if (rank == culprit) nccl_double::fail_call(n);
    const auto message = error_of(use_all);
    EXPECT_TRUE(contains(message, join("rank ", culprit, ": nccl"))) << message;
    EXPECT_TRUE(contains(message, "system error of the double; made for a test")) << message;
    EXPECT_EQ(nccl_double::live_communicators(), 0);
    EXPECT_TRUE(same_everywhere(message));
  }
}

TEST_F(Nccl, AnErrorInTheBackgroundIsThatOfAllRanks) {
  if (size == 1) return;
  for (const bool reduce : {false, true}) {
    const Communicator group = world();
    if (rank == culprit) nccl_double::fail_in_background();
    const auto message = error_of([&] {
      if (reduce) group.all_reduce_sum(Exec(), Kokkos::View<double*, Exec>("view", 10));
      AllToAll(group, 2, 10).start(group).wait();
      group.barrier();
    });
    EXPECT_TRUE(contains(message, join("rank ", culprit, ": NCCL's background work: remote error")))
        << message;
    EXPECT_TRUE(same_everywhere(message));
    EXPECT_EQ(error_of([&] { AllToAll(group, 2, 10).start(group).wait(); }), message);
  }
}

TEST_F(Nccl, AnErrorWhileBytesTravelIsThatOfAllRanks) {
  if (size == 1) return;
  const Communicator group = world();
  const AllToAll exchange(group, 2, 10);
  const auto message = error_of([&] {
    Request request = exchange.start(group);
    if (rank == culprit) nccl_double::fail_in_background();
    request.wait();
    group.barrier();
  });
  EXPECT_TRUE(contains(message, join("rank ", culprit, ": NCCL's background work: remote error")))
      << message;
  EXPECT_TRUE(same_everywhere(message));
}

TEST_F(Nccl, ADeviceThatHangsIsReportedByAllInTime) {
  if (size == 1) return;
  for (const bool reduce : {false, true}) {
    const Communicator group = world(impatient());
    if (rank == culprit) nccl_double::stall();
    const auto message = error_of([&] {
      if (reduce) group.all_reduce_sum(Exec(), Kokkos::View<double*, Exec>("view", 10));
      AllToAll(group, 2, 10).start(group).wait();
      group.barrier();
    });
    nccl_double::reset();
    EXPECT_TRUE(contains(message, reduce ? "progress in an all-reduce" : "progress in an exchange"))
        << message;
    EXPECT_TRUE(same_everywhere(message));
  }
}

}  // namespace
}  // namespace knapformer
