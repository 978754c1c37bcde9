// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What happens when ranks do not do the same: nobody hangs, and the messages name the culprit.

#include <gtest/gtest.h>

#include <chrono>
#include <knapformer/comm/communicator.hpp>
#include <new>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

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
  if (group.transport() != TransportKind::kMpi) return;  // NCCL's exchanges come one after another
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
    EXPECT_TRUE(contains(message, join("no answer from ", culprit_name(), ":"))) << message;
    // One of those that wait speaks for all.
    ASSERT_EQ(log.size(), rank == 0 ? 1 : 0);
    if (rank == 0) {
      EXPECT_TRUE(contains(log[0], join("no answer from ", culprit_name(), ":"))) << log[0];
    }
  } else {
    // What the others have told meanwhile comes out of the next call.
    EXPECT_TRUE(
        contains(error_of([&] { group.barrier(); }), join("no answer from ", culprit_name())));
  }
}

TEST_F(Failure, ARankThatLeavesOutACallIsNamed) {
  if (size == 1) return;
  const Communicator group = world(impatient());
  const auto message = error_of([&] {
    if (rank != culprit) all_to_all(group, 10, 10, 1).wait();
    group.barrier();
  });
  EXPECT_TRUE(contains(message, join("a barrier on ", culprit_name()))) << message;
  EXPECT_TRUE(contains(message, size == 2 ? "ranks 0 and 1 are out of step"
                                          : join(culprit_name(), " is out of step")))
      << message;
  EXPECT_TRUE(same_everywhere(message));
}

TEST_F(Failure, ARankWithAnotherPlanThatNobodySendsToIsNamed) {
  if (size == 1) return;
  const Communicator group = world(impatient());
  // The others have nothing for the culprit and go on; it waits for bytes of a plan of its own.
  const Buffer buffer("buffer", 1);
  const auto message = error_of([&] {
    const ReceiveRange receive{0, buffer.data(), 1};
    const std::size_t count = rank == culprit ? 1 : 0;
    group.start_exchange(Exec(), {}, {&receive, count}, rank == culprit ? 0xbad : 0xcafe).wait();
    group.barrier();
  });
  EXPECT_TRUE(contains(message, join("0000000000000bad on ", culprit_name()))) << message;
  EXPECT_TRUE(contains(message, size == 2 ? "ranks 0 and 1 are out of step"
                                          : join(culprit_name(), " is out of step")))
      << message;
  EXPECT_TRUE(same_everywhere(message));
}

TEST_F(Failure, RanksThatWaitForAWaitingRankDoNotBlameIt) {
  if (size < 3) return;
  const Communicator group = world(impatient());
  // Each waits for the next one, and the last does not come.
  const Buffer buffer("buffer", 2);
  const auto message = rank == culprit ? std::string() : error_of([&] {
    const SendRange send{(rank + size - 1) % size, buffer.data(), 1};
    const ReceiveRange receive{rank + 1, buffer.data() + 1, 1};
    const std::size_t sends = rank > 0 ? 1 : 0;
    group.start_exchange(Exec(), {&send, sends}, {&receive, 1}, 1).wait();
    group.barrier();
  });
  MPI_Barrier(MPI_COMM_WORLD);
  const auto later = rank == culprit ? error_of([&] { group.barrier(); }) : message;
  EXPECT_TRUE(contains(later, join("no answer from ", culprit_name(), ":"))) << later;
  EXPECT_TRUE(same_everywhere(later));
}

TEST_F(Failure, AllThrowTheSameWhenAllTimeOutAtOnce) {
  if (size < 3) return;
  for (int repetition = 0; repetition < 3; ++repetition) {
    const Communicator group = world(impatient());
    const auto message = rank == culprit ? std::string() : error_of([&] { group.barrier(); });
    MPI_Barrier(MPI_COMM_WORLD);
    const auto later = rank == culprit ? error_of([&] { group.barrier(); }) : message;
    EXPECT_TRUE(contains(later, join("no answer from ", culprit_name(), ":"))) << later;
    EXPECT_TRUE(same_everywhere(later));
  }
}

TEST_F(Failure, AllThrowTheSameWhenAllFailAtOnce) {
  for (int repetition = 0; repetition < 20; ++repetition) {
    const Communicator group = world();
    const auto message = error_of([&] { group.fail("each for itself"); });
    EXPECT_TRUE(contains(message, ": each for itself")) << message;
    EXPECT_TRUE(same_everywhere(message));
  }
}

TEST_F(Failure, GroupsShareTheFateOfTheWorldAndUseItsNumbers) {
  if (size % 2 != 0 || size < 4) return;
  const Communicator all = world(impatient());
  const Communicator group = all.split(2);
  EXPECT_EQ(group.root_rank(0), rank / 2 * 2);
  EXPECT_EQ(group.root_rank(1), rank / 2 * 2 + 1);
  MPI_Barrier(MPI_COMM_WORLD);
  // The last group waits for the culprit among themselves, the others in the world, where the
  // waiting rank of the last group is not to blame.
  const auto message = rank == culprit ? std::string() : error_of([&] {
    group.barrier();
    all.barrier();
  });
  MPI_Barrier(MPI_COMM_WORLD);
  const auto later = rank == culprit ? error_of([&] { all.barrier(); }) : message;
  EXPECT_TRUE(contains(later, join("no answer from ", culprit_name(), ":"))) << later;
  EXPECT_TRUE(same_everywhere(later));
  EXPECT_EQ(error_of([&] { group.barrier(); }), later);
}

TEST_F(Failure, AGuardTellsTheOthersOfAnyException) {
  const auto message_when = [&](const std::function<void(const Communicator&)>& work) {
    const Communicator group = world();
    return error_of([&] {
      if (rank == culprit) group.guard([&] { work(group); });
      group.barrier();
    });
  };
  EXPECT_EQ(message_when([](const Communicator&) { throw std::bad_alloc(); }),
            join(culprit_name(), ": out of memory"));
  EXPECT_EQ(message_when([](const Communicator&) { throw std::runtime_error("no data"); }),
            join(culprit_name(), ": no data"));
  EXPECT_EQ(message_when([](const Communicator&) { throw 7; }),
            join(culprit_name(), ": an exception that is no std::exception"));
  EXPECT_EQ(message_when([](const Communicator& group) { group.fail("known"); }),
            join(culprit_name(), ": known"));
  const Communicator group = world();
  EXPECT_EQ(group.guard([] { return 7; }), 7);
  if (size == 1) return;
  // What all throw alike names no one else.
  EXPECT_EQ(
      error_of([&] { group.guard([&] { group.agree(rank == culprit ? "bad input" : ""); }); }),
      join(culprit_name(), ": bad input"));
}

TEST_F(Failure, AnExceptionThatDestroysTheCommunicatorReachesTheOthers) {
  if (size == 1) return;
  std::string message;
  try {
    const Communicator group = world();
    if (rank == culprit) throw std::runtime_error("nobody told");
    message = error_of([&] { group.barrier(); });
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "nobody told");
  }
  if (rank != culprit) {
    EXPECT_EQ(message, join(culprit_name(), ": an exception has destroyed its communicator"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(Failure, WhatIsUnderWayCompletesWithoutARankThatHasDoneItsPart) {
  if (size < 3) return;
  const Buffer buffer("buffer", 2);
  std::string during;
  std::string after;
  try {
    const Communicator group = world();
    // The last two ranks have a byte for the first one: one of them leaves before the other begins.
    const SendRange send{0, buffer.data(), 1};
    const std::vector<ReceiveRange> receives{{culprit - 1, buffer.data(), 1},
                                             {culprit, buffer.data() + 1, 1}};
    if (rank == culprit - 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    during = error_of([&] {
      group
          .start_exchange(Exec(), {&send, rank >= culprit - 1 ? 1u : 0u},
                          std::span(receives).first(rank == 0 ? 2 : 0), 1)
          .wait();
    });
    if (rank == culprit) throw std::runtime_error("done");
    after = error_of([&] { group.barrier(); });
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "done");
  }
  EXPECT_EQ(during, "");
  if (rank != culprit) {
    EXPECT_EQ(after, join(culprit_name(), ": an exception has destroyed its communicator"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(Failure, ACommunicatorThatNotAllConstructTimesOut) {
  if (size == 1) return;
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);  // never freed: the attempt stays pending
  if (rank != culprit) {
    const auto message = error_of([&] { Communicator late(copy, impatient()); });
    EXPECT_TRUE(contains(message, "without progress in MPI_Comm_idup")) << message;
  }
  MPI_Barrier(MPI_COMM_WORLD);
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
    const auto error = error_of([&] {  // of NCCL, at once; otherwise the end of the request waits
      Request request = all_to_all(group, 1'000'000, 1'000'000, 1);
    });
    const std::string& message = error.empty() ? log.back() : error;
    EXPECT_TRUE(contains(message, join("no answer from ", culprit_name()))) << message;
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace knapformer
