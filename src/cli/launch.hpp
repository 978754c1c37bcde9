// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <chrono>
#include <functional>
#include <knapformer/comm/mpi.hpp>

namespace knapformer::cli {

/// The processes that run the program: one, or as many as a launcher (mpirun, srun) has started.
///
/// Open MPI ends a job as soon as a process exits with an error before MPI_Init, maybe before
/// another one could say why. So with several processes MPI is initialised first, whatever the
/// program is to do, and all end together with the same status. A process on its own needs no MPI.
class Launch {
 public:
  /// Initialises MPI if a launcher has started several processes.
  explicit Launch(std::chrono::milliseconds grace = std::chrono::seconds(10));
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// For what needs MPI in any case. Does nothing if it is there already.
  void initialize_mpi();

  /// Whether this is the process that prints.
  bool is_first() const { return rank_ == 0; }

  /// Runs `body` on every process and returns the exit status, the same on all: 0, or 2 when `body`
  /// threw on any, of which the first prints what() on one line. A process that fails while others
  /// wait for it inside `body` cannot reach them: after the grace period it prints its own line and
  /// aborts the job.
  int run(const std::function<void()>& body);

 private:
  const std::chrono::milliseconds grace_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
};

}  // namespace knapformer::cli
