// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A program that fails as its argument says, for test_launch.py.

#include <knapformer/plan/error.hpp>
#include <string>

#include "cli/launch.hpp"

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  using std::chrono::milliseconds;
  knapformer::cli::Launch launch({.alone = milliseconds(500), .alike = milliseconds(500)});
  return launch.run([&] {
    if (mode == "alone") {
      int initialized = 0;
      MPI_Initialized(&initialized);
      if (initialized) throw knapformer::Error("MPI was initialised for a single process");
      return;
    }
    launch.initialize_mpi();
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (mode == "all") throw knapformer::Error("all fail\nalike");
    if (mode == "memory") throw std::bad_alloc();
    if (mode == "one" && rank == 2) throw knapformer::Error("rank 2 fails");
    if (mode == "stuck" && rank == 2) throw knapformer::Error("rank 2 fails");
    if (mode == "stuck") MPI_Barrier(MPI_COMM_WORLD);  // which rank 2 never reaches
  });
}
