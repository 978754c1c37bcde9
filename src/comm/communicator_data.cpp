// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/communicator_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/mpi_check.hpp"
#include "comm/mpi_transport.hpp"

namespace knapformer {
namespace {

constexpr int kFailureTag = 0;   // "this rank cannot go on, because ..."
constexpr int kQuestionTag = 1;  // "what do you wait for?"
constexpr int kAnswerTag = 2;    // "for ..."
constexpr int kFirstExchangeTag = 3;

// Short enough to be sent eagerly by every MPI: the receiver may never look.
constexpr std::size_t kLongestNote = 1000;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// How long the others have to answer before they are called silent: they do so when they wait too.
double seconds_to_answer(const CommunicatorOptions& options) {
  return std::clamp(options.timeout_seconds / 10, 0.1, 5.0);
}

std::string stall_text(int rank, int size, const std::string& what, double seconds,
                       const std::map<int, std::string>& answers) {
  constexpr int kNamed = 4;
  std::string silent;
  int silent_ranks = 0;
  for (int r = 0; r < size; ++r) {
    if (r == rank || answers.contains(r)) continue;
    if (++silent_ranks <= kNamed) silent += fmt::format("{}{}", silent.empty() ? "" : ", ", r);
  }
  if (silent_ranks > kNamed) silent += fmt::format(" and {} more", silent_ranks - kNamed);
  std::string text = fmt::format("rank {}: {:.1f} s without progress in {}; no answer from rank {}",
                                 rank, seconds, what, silent_ranks == 0 ? "none" : silent);
  int told = 0;
  for (const auto& [r, answer] : answers) {
    if (++told > kNamed) break;
    text += fmt::format("; rank {} waits in {}", r, answer);
  }
  return text;
}

}  // namespace

void keep_for_good(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
}

Communicator::Data::Data(MPI_Comm owned, CommunicatorOptions given)
    : comm(owned),
      options(std::move(given)),
      device_buffers(std::make_shared<decltype(device_buffers)::element_type>()),
      transport(std::make_unique<MpiTransport>(*this)) {
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  int* bound = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, &bound, &found), "MPI_Comm_get_attr");
  largest_tag_ = found ? *bound : 32767;
}

Communicator::Data::~Data() {
  finish_gathers();
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  const ReturnMpiErrors guard;
  for (Note& note : notes_) {
    int done = 0;
    MPI_Test(&note.request, &done, MPI_STATUS_IGNORE);
    if (!done) keep_for_good(std::move(note.text));
  }
  // Freeing is collective; after a failure the others may never come.
  if (failure.empty()) MPI_Comm_free(&comm);
}

int Communicator::Data::next_tag() {
  const auto tags = static_cast<std::uint64_t>(largest_tag_ - kFirstExchangeTag + 1);
  return kFirstExchangeTag + static_cast<int>(exchanges++ % tags);
}

void Communicator::Data::log(std::string_view text) const {
  if (options.log) options.log(text);
}

void Communicator::Data::check_usable() {
  if (!failure.empty()) throw Error(failure);
  read_failures();
  advance_gathers();
}

void Communicator::Data::fail(std::string text) {
  if (failure.empty()) {
    failure = text.substr(0, kLongestNote);  // here as on the ranks that are told
    tell_all(kFailureTag, failure);
  }
  throw Error(failure);
}

void Communicator::Data::wait(const Awaited& awaited) {
  const ReturnMpiErrors guard;
  if (awaited.started) times.hidden += process_seconds() - *awaited.started;
  Watch watch;
  Seconds since = thread_seconds();
  for (;;) {
    if (!failure.empty()) throw Error(failure);
    advance_gathers();
    const Progress progress = poll(awaited);
    if (progress == Progress::kDone) return;
    if (progress == Progress::kSome) {
      watch = Watch{};
      since = thread_seconds();
      continue;
    }
    read_failures();
    answer_questions(awaited);
    watch_over(awaited, watch);
    std::this_thread::yield();
    const Seconds now = thread_seconds();
    times.waited += now - since;
    since = now;
  }
}

Progress Communicator::Data::poll(const Awaited& awaited) {
  try {
    return awaited.poll();
  } catch (const Error& error) {
    fail(failure.empty() ? fmt::format("rank {}: {}", rank, error.what()) : failure);
  }
}

/// Has every gather that is complete do what comes then, in the order started.
void Communicator::Data::advance_gathers() {
  while (!gathers.empty()) {
    const std::shared_ptr<HostGather::State> first = gathers.front();
    const auto test = [&] {
      int done = 0;
      check_mpi(MPI_Test(&first->request, &done, MPI_STATUS_IGNORE), "MPI_Iallgather");
      return done ? Progress::kDone : Progress::kNone;
    };
    if (poll({test, {}}) != Progress::kDone) return;
    gathers.pop_front();
    first->done = true;
    if (first->then) first->then();
  }
}

/// Completes what nobody waits for any more: a collective that was started can be neither cancelled
/// nor freed (MPI 3.1, section 5.12).
void Communicator::Data::finish_gathers() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized && failure.empty()) {
    try {
      wait({[&] { return gathers.empty() ? Progress::kDone : Progress::kNone; },
            [] { return std::string("an all-gather that was abandoned"); }});
    } catch (const std::exception& error) {
      log(error.what());
    }
  }
  for (auto& gather : gathers) keep_for_good(std::move(gather));
}

void Communicator::Data::wait(MPI_Request request, const char* function,
                              std::shared_ptr<void> buffers) {
  try {
    wait({[&] {
            int done = 0;
            check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), function);
            return done ? Progress::kDone : Progress::kNone;
          },
          [&] { return std::string(function); }});
  } catch (...) {
    // A started collective cannot be cancelled, so its memory must stay.
    if (request != MPI_REQUEST_NULL) keep_for_good(std::move(buffers));
    throw;
  }
}

bool Communicator::Data::receive_note(int tag, int& source, std::string& text) {
  int there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  check_mpi(MPI_Improbe(MPI_ANY_SOURCE, tag, comm, &there, &message, &status), "MPI_Improbe");
  if (!there) return false;
  int length = 0;
  check_mpi(MPI_Get_count(&status, MPI_CHAR, &length), "MPI_Get_count");
  text.resize(static_cast<std::size_t>(length));
  source = status.MPI_SOURCE;
  check_mpi(MPI_Mrecv(text.data(), length, MPI_CHAR, &message, &status), "MPI_Mrecv");
  return true;
}

void Communicator::Data::read_failures() {
  int source = 0;
  std::string text;
  if (!receive_note(kFailureTag, source, text)) return;
  failure = text;
  throw Error(failure);
}

void Communicator::Data::answer_questions(const Awaited& awaited) {
  int source = 0;
  std::string text;
  while (receive_note(kQuestionTag, source, text)) tell(source, kAnswerTag, awaited.describe());
}

void Communicator::Data::watch_over(const Awaited& awaited, Watch& watch) {
  const double idle = seconds_since(watch.progress);
  if (!watch.reported && idle > options.report_seconds) {
    watch.reported = true;
    log(fmt::format("rank {}: {:.1f} s without progress in {}", rank, idle, awaited.describe()));
  }
  if (idle <= options.timeout_seconds) return;
  int source = 0;
  std::string text;
  if (watch.asked == Clock::time_point{}) {
    while (receive_note(kAnswerTag, source, text)) {
    }  // to an earlier question, which progress has settled
    watch.asked = Clock::now();
    tell_all(kQuestionTag, {});
  }
  while (receive_note(kAnswerTag, source, text)) watch.answers[source] = text;
  if (seconds_since(watch.asked) <= seconds_to_answer(options)) return;
  fail(stall_text(rank, size, awaited.describe(), idle, watch.answers));
}

void Communicator::Data::tell(int peer, int tag, std::string_view text) {
  const auto note = std::make_shared<std::string>(text.substr(0, kLongestNote));
  MPI_Request request = MPI_REQUEST_NULL;
  // Best effort: there is nobody to report an error to that is not failing already.
  MPI_Isend(note->data(), static_cast<int>(note->size()), MPI_CHAR, peer, tag, comm, &request);
  notes_.push_back({note, request});
}

void Communicator::Data::tell_all(int tag, std::string_view text) {
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) tell(peer, tag, text);
  }
}

}  // namespace knapformer
