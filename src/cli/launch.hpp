// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <chrono>
#include <functional>
#include <knapformer/comm/mpi.hpp>
#include <optional>
#include <string>

namespace knapformer::cli {

/// How long a process that has failed waits for the others at its end.
struct Patience {
  std::chrono::milliseconds alone = std::chrono::seconds(10);  ///< nobody may know of it
  std::chrono::milliseconds alike = std::chrono::seconds(1);   ///< all fail alike, at the same time
};

/// The processes that run the program: one, or as many as a launcher (mpirun, srun) has started.
///
/// Open MPI ends a job as soon as a process exits with an error before MPI_Init, maybe before
/// another one could say why. So with several processes MPI is initialised first, whatever the
/// program is to do, and all end together with the same status. A process on its own needs no MPI.
class Launch {
 public:
  /// Initialises MPI if a launcher has started several processes.
  explicit Launch(Patience patience = {});
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// For what needs MPI in any case. Does nothing if it is there already.
  void initialize_mpi();

  /// Whether this is the process that prints.
  bool is_first() const { return rank_ == 0; }

  /// Runs `body` on every process and returns the exit status, the same on all: 0, or 2 when `body`
  /// threw on any, of which the first prints what() on one line. A process that the others do not
  /// follow to the end, because they wait for it inside `body` or are no more, prints its line and
  /// aborts the job; of several, one.
  int run(const std::function<void()>& body);

 private:
  /// The lowest rank that any process gives. Nothing when not all have come in time.
  std::optional<int> agree_on_first(int rank,
                                    std::optional<std::chrono::milliseconds> patience) const;
  void abort(const std::string& complaint) const;

  const Patience patience_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace knapformer::cli
