// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <knapformer/comm/communicator.hpp>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "support/mpi_test.hpp"

namespace knapformer {
namespace {

using Exec = Kokkos::DefaultExecutionSpace;
using test::contains;
using test::error_of;
using test::join;
using test::same_everywhere;
using test::world;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

TEST(Communicator, KnowsItsRanksAndDuplicates) {
  const Communicator group = world();
  int rank = -1;
  int size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_EQ(group.rank(), rank);
  EXPECT_EQ(group.size(), size);
  int same = MPI_IDENT;
  MPI_Comm_compare(MPI_COMM_WORLD, group.mpi(), &same);
  EXPECT_EQ(same, MPI_CONGRUENT);
}

TEST(Communicator, GathersBlocksInRankOrder) {
  const Communicator group = world();
  const std::vector<int> mine{group.rank(), 10 * group.rank()};
  const auto all = group.all_gather(std::span<const int>(mine));
  ASSERT_EQ(all.size(), 2 * index(group.size()));
  for (int r = 0; r < group.size(); ++r) {
    EXPECT_EQ(all[2 * index(r)], r);
    EXPECT_EQ(all[2 * index(r) + 1], 10 * r);
  }
  EXPECT_TRUE(group.all_gather(std::span<const int>()).empty());
}

TEST(Communicator, GathersBlocksOfDifferentLength) {
  const Communicator group = world();
  const std::vector<double> mine(index(group.rank() % 3), group.rank() + 0.5);
  const auto all = group.all_gather_varying(std::span<const double>(mine));
  ASSERT_EQ(all.counts.size(), index(group.size()));
  std::size_t next = 0;
  for (int r = 0; r < group.size(); ++r) {
    ASSERT_EQ(all.counts[index(r)], r % 3);
    for (int i = 0; i < r % 3; ++i) EXPECT_EQ(all.values[next++], r + 0.5);
  }
  EXPECT_EQ(next, all.values.size());
}

TEST(Communicator, StartedGathersCompleteInOrderBehindOtherCalls) {
  const Communicator group = world();
  std::vector<int> seen;
  std::vector<Gathering<int>> gatherings;
  for (int i = 0; i < 3; ++i) {
    const int mine = 100 * i + group.rank();
    gatherings.push_back(
        group.start_all_gather(std::span<const int>(&mine, 1), [&seen, i] { seen.push_back(i); }));
    EXPECT_TRUE(seen.empty() || seen.back() < i) << "what comes then does not come at once";
  }
  // Every rank enters this barrier after it has given its blocks, so all are there soon after.
  // Ranks see them at different times, and stop together.
  for (int i = 0, fewest = 0; i < 1000 && fewest < 3; ++i) {
    group.barrier();
    fewest = static_cast<int>(seen.size());
    MPI_Allreduce(MPI_IN_PLACE, &fewest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  }
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2}));
  for (const int i : {2, 0, 1, 0}) {
    const std::vector<int> all = gatherings[index(i)].wait();
    ASSERT_EQ(all.size(), index(group.size()));
    for (int r = 0; r < group.size(); ++r) EXPECT_EQ(all[index(r)], 100 * i + r);
  }
  EXPECT_EQ(seen.size(), 3u);
}

TEST(Communicator, AbandonedGathersHoldNothingUp) {
  bool abandoned = false;
  bool called_late = false;
  const auto then = [&] { called_late = called_late || abandoned; };
  {
    const Communicator group = world();
    const std::vector<int> block(10000, group.rank());
    {
      auto first = group.start_all_gather(std::span<const int>(block), then);
      auto second = group.start_all_gather(std::span<const int>(block), then);
      first = std::move(second);
    }
    abandoned = true;
    const int mine = group.rank();
    EXPECT_EQ(group.all_gather(std::span<const int>(&mine, 1)).size(), index(group.size()));
    group.start_all_gather(std::span<const int>(block), then);
  }  // the communicator ends with a gather under way
  EXPECT_FALSE(called_late);
}

TEST(Communicator, CountsTheTimeItWaits) {
  const Communicator group = world();
  for (int i = 0; i < 10; ++i) {
    if (group.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    group.barrier();
  }
  const double waited = group.times().waited.elapsed;
  double sum = 0;
  for (const double each : group.all_gather(std::span<const double>(&waited, 1))) sum += each;
  EXPECT_TRUE(group.size() == 1 || sum > 0);
  EXPECT_EQ(group.times().hidden.elapsed, 0);
  group.record_hidden({.elapsed = 2, .cpu = 1});
  EXPECT_EQ(group.times().hidden.elapsed, 2);
  EXPECT_EQ(group.times().hidden.cpu, 1);
}

TEST(Communicator, AgreesOnTheFirstComplaint) {
  const Communicator group = world();
  EXPECT_NO_THROW(group.agree(""));
  const int last = group.size() - 1;
  const int first = group.size() / 2;
  std::string complaint;
  if (group.rank() >= first) complaint = join("complaint ", group.rank());
  const auto of = [&](int r) { return group.size() == 1 ? std::string() : join("rank ", r, ": "); };
  EXPECT_EQ(error_of([&] { group.agree(complaint); }), join(of(first), "complaint ", first));
  EXPECT_EQ(error_of([&] { group.agree(group.rank() == last ? "x" : ""); }), join(of(last), "x"));
  EXPECT_EQ(error_of([&] { group.agree("what all say"); }), "what all say");
  EXPECT_NO_THROW(group.barrier());
}

TEST(Communicator, SplitsIntoGroupsOfConsecutiveRanks) {
  const Communicator group = world();
  for (int size = 1; size <= group.size(); ++size) {
    if (group.size() % size != 0) {
      EXPECT_TRUE(contains(error_of([&] { group.split(size); }), "do not divide"));
      continue;
    }
    const Communicator part = group.split(size);
    EXPECT_EQ(part.size(), size);
    EXPECT_EQ(part.rank(), group.rank() % size);
    const int mine = group.rank();
    const auto members = part.all_gather(std::span<const int>(&mine, 1));
    for (int r = 0; r < size; ++r) EXPECT_EQ(members[index(r)], mine / size * size + r);
  }
  EXPECT_FALSE(error_of([&] { group.split(0); }).empty());
  if (group.size() > 1) {
    EXPECT_TRUE(contains(error_of([&] { group.split(group.rank() == 1 ? 1 : group.size()); }),
                         "on rank 1"));
  }
}

TEST(Communicator, RejectsBadOptionsOnAllRanks) {
  CommunicatorOptions options;
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == size - 1) options.message_bytes = 0;
  const auto message = error_of([&] { Communicator bad(MPI_COMM_WORLD, options); });
  EXPECT_TRUE(contains(message, "message_bytes is 0"));
  EXPECT_TRUE(same_everywhere(message));
  options.message_bytes = 100 + (rank == size - 1);
  const auto differ = error_of([&] { Communicator bad(MPI_COMM_WORLD, options); });
  EXPECT_EQ(differ.empty(), size == 1);
  EXPECT_THROW(Communicator(MPI_COMM_NULL), Error);
}

template <class T>
class AllReduce : public ::testing::Test {};
using Scalars = ::testing::Types<double, float>;
TYPED_TEST_SUITE(AllReduce, Scalars);

TYPED_TEST(AllReduce, SumsAndGivesAllRanksTheSameBits) {
  using T = TypeParam;
  for (const bool direct : {true, false}) {
    CommunicatorOptions options;
    options.message_bytes = 40;  // many parts
    options.direct = direct;
    const Communicator group = world(options);
    const Exec exec;
    for (const int size : {0, 1, 7, 1000}) {
      Kokkos::View<T*, Exec> view("view", index(size));
      auto host = Kokkos::create_mirror_view(view);
      for (int i = 0; i < size; ++i) host(i) = T(1) / T(3 + i + 7 * group.rank());
      Kokkos::deep_copy(view, host);
      group.all_reduce_sum(exec, view);
      Kokkos::deep_copy(host, view);
      std::vector<T> mine(host.data(), host.data() + host.size());
      for (int i = 0; i < size; ++i) {
        double sum = 0;
        for (int r = 0; r < group.size(); ++r) sum += double(T(1) / T(3 + i + 7 * r));
        EXPECT_NEAR(double(mine[index(i)]), sum,
                    4.0 * group.size() * double(std::numeric_limits<T>::epsilon()));
      }
      const auto all = group.all_gather(std::span<const T>(mine));
      for (int r = 0; r < group.size() && size > 0; ++r) {
        EXPECT_EQ(std::memcmp(&all[index(r * size)], mine.data(), mine.size() * sizeof(T)), 0);
      }
    }
  }
}

TEST(AllReduce, RejectsDifferentSizes) {
  const Communicator group = world();
  if (group.size() == 1) return;
  const Kokkos::View<double*, Exec> view("view", group.rank() == 1 ? 3 : 4);
  const auto message = error_of([&] { group.all_reduce_sum(Exec(), view); });
  EXPECT_EQ(message, "all_reduce_sum: 3 elements on rank 1 and 4 on rank 0");
}

}  // namespace
}  // namespace knapformer
