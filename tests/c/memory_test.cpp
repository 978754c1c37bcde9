// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Whichever allocation of one rank fails: no exception reaches its caller in C, all ranks return,
// and none hangs.

#include <gtest/gtest.h>
#include <knapformer/knapformer.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "failing_new.hpp"
#include "support/mpi_test.hpp"

namespace knapformer::test {
namespace {

class CMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    knapformer_communicator_options options;
    knapformer_communicator_options_init(&options);
    options.timeout_seconds = 30;
    MPI_Barrier(MPI_COMM_WORLD);
    ASSERT_EQ(knapformer_communicator_create(MPI_COMM_WORLD, &options, &group), 0);
    ASSERT_EQ(knapformer_balancer_create(group, nullptr, &balancer), 0);
    ASSERT_EQ(knapformer_balancer_prepare(balancer, 2, kLengths.data(), nullptr, &routing), 0);
    // The standard library's memory pools crash when their first allocations fail (GCC 12).
    ASSERT_EQ(knapformer_routing_move(routing, KNAPFORMER_ROUTE, nullptr, 1, &rows), 0);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  void TearDown() override {
    knapformer_routing_destroy(&routing);
    knapformer_balancer_destroy(&balancer);
    knapformer_communicator_destroy(&group);
  }

  /// Runs `call` again and again, with a later allocation of the last rank failing each time, until
  /// there is none left. `clean_up` follows, as destructors of Kokkos allocate and must not fail.
  void expect_no_escape(
      const std::function<int()>& call, const std::function<void()>& clean_up = [] {}) {
    for (int n = 0;; ++n) {
      ASSERT_LT(n, 1000);
      SCOPED_TRACE(n);
      if (rank == size - 1) fail_new(n);
      const int status = call();
      int failed = rank == size - 1 && new_has_failed() ? 1 : 0;
      fail_new(-1);
      clean_up();
      const int after = status ? status : knapformer_communicator_barrier(group);
      MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
      if (!failed) {
        EXPECT_EQ(after, 0) << knapformer_error_message();
        EXPECT_GT(n, 0);
        return;
      }
      // An allocation that nothing depends on may fail unseen.
      int seen = after;
      MPI_Allreduce(MPI_IN_PLACE, &seen, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
      EXPECT_EQ(after, seen);
      if (seen == 0) continue;
      EXPECT_EQ(seen, KNAPFORMER_FAILED);
      const std::string message = knapformer_error_message();
      const std::string kokkos = "Kokkos ERROR: Host memory space failed to allocate";
      EXPECT_TRUE(message == join("rank ", size - 1, ": out of memory") ||
                  contains(message, join("rank ", size - 1, ": ", kokkos)))
          << message;
      TearDown();
      SetUp();
    }
  }

  static constexpr std::array<std::int64_t, 2> kLengths{20, 30};
  std::vector<double> from = std::vector<double>(50), to = std::vector<double>(50);
  const knapformer_rows rows{from.data(), to.data(), 50, 50, 8, KNAPFORMER_DOUBLE};
  int rank = 0;
  int size = 1;
  knapformer_communicator* group = nullptr;
  knapformer_balancer* balancer = nullptr;
  knapformer_routing* routing = nullptr;
};

TEST_F(CMemory, Prepare) {
  knapformer_routing* another = nullptr;
  expect_no_escape(
      [&] { return knapformer_balancer_prepare(balancer, 2, kLengths.data(), nullptr, &another); },
      [&] { knapformer_routing_destroy(&another); });
}

TEST_F(CMemory, Move) {
  expect_no_escape([&] {
    knapformer_request* request = nullptr;
    const int status =
        knapformer_routing_start_move(routing, KNAPFORMER_ROUTE, nullptr, 1, &rows, &request);
    return status ? status : knapformer_request_wait(&request);
  });
}

TEST_F(CMemory, Balancer) {
  knapformer_balancer* another = nullptr;
  expect_no_escape([&] { return knapformer_balancer_create(group, nullptr, &another); },
                   [&] { knapformer_balancer_destroy(&another); });
}

}  // namespace
}  // namespace knapformer::test
