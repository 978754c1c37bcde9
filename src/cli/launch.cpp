// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/launch.hpp"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <thread>

namespace knapformer::cli {
namespace {

constexpr int kFailure = 2;

bool started_with_others() {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* processes = std::getenv(name);
    if (processes && std::atoi(processes) > 1) return true;
  }
  return false;
}

void print_complaint(const std::string& complaint) {
  std::string line = "knapformer: ";
  for (char c : complaint) line += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  line += '\n';
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

std::optional<std::string> complaint_of(const std::function<void()>& body) {
  try {
    body();
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

Launch::Launch(std::chrono::milliseconds grace) : grace_(grace) {
  if (started_with_others()) initialize_mpi();
}

Launch::~Launch() {
  if (comm_ == MPI_COMM_NULL) return;
  MPI_Comm_free(&comm_);
  MPI_Finalize();
}

void Launch::initialize_mpi() {
  if (comm_ != MPI_COMM_NULL) return;
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
  MPI_Comm_rank(comm_, &rank_);
}

int Launch::run(const std::function<void()>& body) {
  const std::optional<std::string> complaint = complaint_of(body);
  int first_to_fail = complaint ? rank_ : INT_MAX;
  if (comm_ != MPI_COMM_NULL) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, &first_to_fail, 1, MPI_INT, MPI_MIN, comm_, &request);
    const auto start = std::chrono::steady_clock::now();
    for (int done = 0;;) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done) break;
      if (complaint && std::chrono::steady_clock::now() - start > grace_) {
        print_complaint(*complaint);
        MPI_Abort(comm_, kFailure);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  if (complaint && first_to_fail == rank_) print_complaint(*complaint);
  return first_to_fail == INT_MAX ? 0 : kFailure;
}

}  // namespace knapformer::cli
