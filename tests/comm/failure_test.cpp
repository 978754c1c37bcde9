// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What happens when ranks do not do the same: nobody hangs, and the messages name the culprit.

#include <gtest/gtest.h>

#include <knapformer/comm/communicator.hpp>
#include <vector>

#include "support/mpi_test.hpp"

namespace knapformer {
namespace {

using Exec = Kokkos::DefaultExecutionSpace;
using Buffer = Kokkos::View<std::byte*, Exec>;
using test::contains;
using test::error_of;
using test::join;
using test::same_everywhere;
using test::world;

CommunicatorOptions impatient(std::vector<std::string>* log = nullptr) {
  CommunicatorOptions options;
  options.report_seconds = 0.1;
  options.timeout_seconds = 0.5;
  if (log) options.log = [log](std::string_view text) { log->emplace_back(text); };
  return options;
}

/// Every rank sends `bytes` to every other and expects as much.
Request all_to_all(const Communicator& group, std::int64_t bytes, std::int64_t expected,
                   std::uint64_t fingerprint) {
  auto buffer =
      std::make_shared<Buffer>("buffer", static_cast<std::size_t>(bytes + expected) * group.size());
  std::vector<SendRange> sends;
  std::vector<ReceiveRange> receives;
  std::byte* next = buffer->data();
  for (int r = 0; r < group.size(); ++r) {
    if (r == group.rank()) continue;
    sends.push_back({r, next, bytes});
    receives.push_back({r, next + bytes, expected});
    next += bytes + expected;
  }
  return group.start_exchange(Exec(), sends, receives, fingerprint, buffer);
}

class Failure : public ::testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    culprit = size - 1;
  }
  std::string culprit_name() const { return join("rank ", culprit); }
  int size = 1;
  int rank = 0;
  int culprit = 0;
};

TEST_F(Failure, AnotherFingerprintIsRefusedByAll) {
  if (size == 1) return;
  const Communicator group = world();
  const auto message = error_of([&] {
    all_to_all(group, 100, 100, rank == culprit ? 2 : 1).wait();
    group.barrier();
  });
  EXPECT_TRUE(contains(message, "another plan")) << message;
  EXPECT_TRUE(contains(message, join("and ", culprit))) << message;
  EXPECT_EQ(error_of([&] { group.barrier(); }), message);
  EXPECT_EQ(error_of([&] { all_to_all(group, 1, 1, 1).wait(); }), message);
}

TEST_F(Failure, OtherSizesAreRefusedLargeAndSmall) {
  if (size == 1) return;
  for (const std::int64_t bytes : {8, 100'000}) {  // eager and by rendezvous
    for (const int change : {-3, 3}) {
      const Communicator group = world();
      const auto message = error_of([&] {
        all_to_all(group, bytes + (rank == culprit ? change : 0), bytes, 1).wait();
        group.barrier();
      });
      EXPECT_TRUE(contains(message, join("and ", culprit, ": bytes of another plan"))) << message;
      EXPECT_TRUE(contains(message, std::to_string(bytes + change))) << message;
    }
  }
}

TEST_F(Failure, OtherBoundariesAreRefused) {
  if (size == 1) return;
  const Communicator group = world();
  const Buffer buffer("buffer", 20);
  const int peer = rank == 0 ? culprit : 0;
  std::vector<SendRange> sends;
  std::vector<ReceiveRange> receives;
  if (rank == 0) sends = {{peer, buffer.data(), 5}, {peer, buffer.data() + 5, 5}};
  if (rank == culprit) receives = {{peer, buffer.data(), 4}, {peer, buffer.data() + 4, 6}};
  const auto message = error_of([&] {
    group.start_exchange(Exec(), sends, receives, 1).wait();
    group.barrier();
  });
  EXPECT_TRUE(contains(message, "refused")) << message;
  EXPECT_TRUE(same_everywhere(message));
}

TEST_F(Failure, AnExchangeThatOneSideKnowsNothingOfDoesNotMixWithTheNext) {
  if (size == 1) return;
  const Communicator group = world(impatient());
  const Buffer sent("sent", 2);
  const Buffer received("received", 1);
  Kokkos::deep_copy(Kokkos::subview(sent, 0), std::byte{1});
  Kokkos::deep_copy(Kokkos::subview(sent, 1), std::byte{2});
  std::vector<SendRange> unexpected;
  if (rank == 0) unexpected = {{culprit, sent.data(), 1}};
  Request first = group.start_exchange(Exec(), unexpected, {}, 1);
  const SendRange send{(rank + 1) % size, sent.data() + 1, 1};
  const ReceiveRange receive{(rank + size - 1) % size, received.data(), 1};
  group.start_exchange(Exec(), {&send, 1}, {&receive, 1}, 1).wait();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), received);
  EXPECT_EQ(host(0), std::byte{2});
  MPI_Barrier(MPI_COMM_WORLD);
  const auto message = error_of([&] { first.wait(); });
  EXPECT_EQ(message.empty(), rank != 0) << message;
}

TEST_F(Failure, ASilentRankIsNamedAndTheReportComesFirst) {
  if (size == 1) return;
  std::vector<std::string> log;
  const Communicator group = world(impatient(&log));
  // Only the culprit expects nothing and sends nothing; it is busy elsewhere.
  const auto message =
      rank == culprit ? std::string() : error_of([&] { all_to_all(group, 10, 10, 1).wait(); });
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != culprit) {
    EXPECT_TRUE(contains(message, join("no answer from ", culprit_name()))) << message;
    ASSERT_FALSE(log.empty());
    EXPECT_TRUE(contains(log[0], join("with ", culprit_name()))) << log[0];
  } else {
    // What the others have told meanwhile comes out of the next call.
    EXPECT_TRUE(
        contains(error_of([&] { group.barrier(); }), join("no answer from ", culprit_name())));
  }
}

TEST_F(Failure, ARankThatWaitsElsewhereSaysSo) {
  if (size == 1) return;
  const Communicator group = world(impatient());
  const auto message = error_of([&] {
    if (rank != culprit) all_to_all(group, 10, 10, 1).wait();
    group.barrier();
  });
  EXPECT_TRUE(contains(message, "no answer from rank none")) << message;
  EXPECT_TRUE(contains(message, "an exchange")) << message;
  if (size <= 3) {
    EXPECT_TRUE(contains(message, "barrier")) << message;
  }
}

TEST_F(Failure, CollectivesTimeOutToo) {
  if (size == 1) return;
  const Communicator group = world(impatient());
  const std::vector<int> mine(100, rank);
  const auto message = rank == culprit
                           ? std::string()
                           : error_of([&] { group.all_gather(std::span<const int>(mine)); });
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != culprit) {
    EXPECT_TRUE(contains(message, join("no answer from ", culprit_name()))) << message;
  }
}

TEST_F(Failure, OneRankThatFailsStopsAll) {
  const Communicator group = world();
  const auto message = error_of([&] {
    if (rank == culprit) group.fail("out of luck");
    all_to_all(group, 1000, 1000, 1).wait();
    group.barrier();
  });
  EXPECT_EQ(message, join(culprit_name(), ": out of luck"));
}

TEST_F(Failure, BadRangesStopAll) {
  const Communicator group = world();
  const auto message = error_of([&] {
    const SendRange send{rank == culprit ? size : rank, nullptr, 0};
    group.start_exchange(Exec(), {&send, 1}, {}, 1).wait();
    group.barrier();
  });
  EXPECT_TRUE(contains(message, join("for rank ", size))) << message;
  EXPECT_TRUE(same_everywhere(message));
}

TEST_F(Failure, OwnBytesMustBalance) {
  const Communicator group = world();
  const Buffer buffer("buffer", 20);
  const SendRange send{rank, buffer.data(), 5};
  const ReceiveRange receive{rank, buffer.data() + 10, 6};
  EXPECT_TRUE(contains(error_of([&] {
                         group.start_exchange(Exec(), {&send, 1}, {&receive, 1}, 1);
                       }),
                       "fewer own"));
  const Communicator other = world();
  EXPECT_TRUE(contains(error_of([&] {
                         other.start_exchange(Exec(), {&send, 1}, {}, 1);
                       }),
                       "more own"));
}

TEST_F(Failure, ARequestDroppedAfterAFailureKeepsItsMemoryWhileNeeded) {
  if (size == 1) return;
  std::vector<std::string> log;
  const Communicator group = world(impatient(&log));
  if (rank != culprit) {
    { Request request = all_to_all(group, 1'000'000, 1'000'000, 1); }  // waits, fails, reports
    EXPECT_TRUE(contains(log.back(), join("no answer from ", culprit_name()))) << log.back();
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace knapformer
