// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/launch.hpp"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <knapformer/comm/shared_error.hpp>
#include <new>
#include <string>
#include <thread>

namespace knapformer::cli {
namespace {

constexpr int kFailure = 2;
constexpr int kComplaintTag = 1;

using Clock = std::chrono::steady_clock;

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

}  // namespace

Launch::Launch(Patience patience) : patience_(patience) {
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
  MPI_Comm_size(comm_, &size_);
}

int Launch::run(const std::function<void()>& body) {
  std::string complaint;
  std::optional<std::chrono::milliseconds> patience;
  try {
    body();
  } catch (const SharedError& error) {
    complaint = error.what();
    patience = patience_.alike;
  } catch (const std::bad_alloc&) {
    complaint = "out of memory";
    patience = patience_.alone;
  } catch (const std::exception& error) {
    complaint = error.what();
    patience = patience_.alone;
  }
  std::optional<int> first_to_fail = patience ? rank_ : INT_MAX;
  if (comm_ != MPI_COMM_NULL) first_to_fail = agree_on_first(*first_to_fail, patience);
  if (!first_to_fail) abort(complaint);
  if (first_to_fail == rank_) print_complaint(complaint);
  return first_to_fail == INT_MAX ? 0 : kFailure;
}

std::optional<int> Launch::agree_on_first(int rank,
                                          std::optional<std::chrono::milliseconds> patience) const {
  static int first = 0;  // lasts, for MPI may write to it when it is given up
  first = rank;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm_, &request);
  const auto start = Clock::now();
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done) return first;
    if (patience && Clock::now() - start > *patience) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// The lowest of the processes that give up at about the same time prints and ends the job. Where
/// the launcher lets processes outlive that, the others follow.
void Launch::abort(const std::string& complaint) const {
  static char nothing = 0;
  for (int peer = 0; peer < size_; ++peer) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (peer != rank_) MPI_Isend(&nothing, 0, MPI_CHAR, peer, kComplaintTag, comm_, &request);
  }
  int first = rank_;
  for (const auto start = Clock::now(); Clock::now() - start < patience_.alike;) {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kComplaintTag, comm_, &there, &status);
    if (!there) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    MPI_Recv(&nothing, 0, MPI_CHAR, status.MPI_SOURCE, kComplaintTag, comm_, MPI_STATUS_IGNORE);
    first = std::min(first, status.MPI_SOURCE);
  }
  if (first != rank_) std::this_thread::sleep_for(patience_.alike);
  print_complaint(complaint);
  MPI_Abort(comm_, kFailure);
}

}  // namespace knapformer::cli
