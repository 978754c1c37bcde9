// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/mpi_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <knapformer/plan/error.hpp>
#include <limits>
#include <string>

namespace knapformer {

void check_mpi(int code, const char* function) {
  if (code == MPI_SUCCESS) return;
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  text.resize(static_cast<std::size_t>(length));
  throw Error(fmt::format("{} failed with code {}: {}", function, code, text));
}

int mpi_count(std::int64_t count, const char* function) {
  if (count < 0 || count > std::numeric_limits<int>::max()) {
    throw Error(fmt::format("{} is asked for {} elements; MPI counts to {}", function, count,
                            std::numeric_limits<int>::max()));
  }
  return static_cast<int>(count);
}

ReturnMpiErrors::ReturnMpiErrors() {
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before_);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

ReturnMpiErrors::~ReturnMpiErrors() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, before_);
  MPI_Errhandler_free(&before_);
}

bool withdraw_messages(std::span<MPI_Request> requests, std::size_t receives) {
  const ReturnMpiErrors guard;
  for (MPI_Request& request : requests.first(std::min(receives, requests.size()))) {
    if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  }
  bool all_done = true;
  for (MPI_Request& request : requests) {
    int done = 0;
    const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    all_done = all_done && (done || code != MPI_SUCCESS);
  }
  return all_done;
}

}  // namespace knapformer
