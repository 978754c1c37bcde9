// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What ranks tell each other of failures, in the orders in which it may reach them.

#include "comm/control.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "support/mpi_test.hpp"

namespace {
bool late = false;  ///< the notes of others have not come yet when this rank looks for them next
}

// Takes the place of MPI's own.
extern "C" int MPI_Improbe(int source, int tag, MPI_Comm comm, int* there, MPI_Message* message,
                           MPI_Status* status) {
  if (!late) return PMPI_Improbe(source, tag, comm, there, message, status);
  late = false;
  *there = 0;
  return MPI_SUCCESS;
}

namespace knapformer {
namespace {

TEST(Failure, ADepartureThatSomeHearOfFirstIsTheSameToAll) {
  int size = 1;
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int culprit = size - 1;
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  std::string message;
  try {
    Control control(copy, 5.0);
    if (rank == culprit) throw std::runtime_error("nobody told");
    // All but the first rank hear of the departure before they hear that the first one gives up.
    MPI_Barrier(MPI_COMM_WORLD);
    test::error_of([&] {
      while (rank != 0 && !control.failed()) control.check();
    });
    MPI_Barrier(MPI_COMM_WORLD);
    late = rank == 0;
    message = test::error_of([&] {
      if (rank == 0) control.fail({Failure::Kind::kSilence, rank, "no answer"});
      for (;;) control.check();
    });
  } catch (const std::runtime_error&) {
    for (int barriers = 0; barriers < 2; ++barriers) MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == culprit) return;
  EXPECT_EQ(message, test::join("rank ", culprit, ": an exception has destroyed its communicator"));
}

}  // namespace
}  // namespace knapformer
