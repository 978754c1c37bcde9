// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstddef>
#include <cstdint>
#include <knapformer/comm/mpi.hpp>
#include <span>

namespace knapformer {

/// Throws Error with MPI's own words unless `code` is MPI_SUCCESS. `function` is the MPI function's
/// name.
void check_mpi(int code, const char* function);

/// A count for MPI, which takes int. Throws Error when it does not fit.
int mpi_count(std::int64_t count, const char* function);

/// While it lives, MPI returns the errors of calls that name no communicator, such as MPI_Testsome.
/// MPICH asks the handler of MPI_COMM_WORLD for them, and that usually ends the program.
class ReturnMpiErrors {
 public:
  ReturnMpiErrors();
  ReturnMpiErrors(const ReturnMpiErrors&) = delete;
  ReturnMpiErrors& operator=(const ReturnMpiErrors&) = delete;
  ~ReturnMpiErrors();

 private:
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

/// Gives up pending messages, of which the first `receives` are receives. False when MPI may still
/// touch the memory of some.
bool withdraw_messages(std::span<MPI_Request> requests, std::size_t receives);

}  // namespace knapformer
