// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/communicator_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <knapformer/comm/shared_error.hpp>
#include <thread>
#include <utility>

#include "comm/mpi_check.hpp"
#include "comm/mpi_transport.hpp"

namespace knapformer {
namespace {

// How long the others have to answer before they are called silent: they do so when they wait too.
double seconds_to_answer(const CommunicatorOptions& options) {
  return std::clamp(options.timeout_seconds / 4, 0.25, 5.0);
}

// Before the processor is yielded and the clock is read, which cost more than a poll does.
constexpr int kBusyPolls = 20;

}  // namespace

Communicator::Data::Data(MPI_Comm owned, CommunicatorOptions given)
    : control(std::make_shared<Control>(owned, seconds_to_answer(given))),
      options(std::move(given)),
      transport(std::make_unique<MpiTransport>(*this)) {
  inspect(owned);
}

Communicator::Data::Data(MPI_Comm owned, Data& parent, int first)
    : control(parent.control),
      options(parent.options),
      first_member(parent.root_rank(first)),
      transport(std::make_unique<MpiTransport>(*this)) {
  const auto mix = [this](std::uint64_t x) { id = (id ^ x) * 0x9e3779b97f4a7c15; };
  mix(parent.id + 1);
  mix(++parent.splits);
  mix(static_cast<std::uint64_t>(first) + 1);
  inspect(owned);
}

void Communicator::Data::inspect(MPI_Comm owned) {
  comm = owned;
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  int* bound = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, &bound, &found), "MPI_Comm_get_attr");
  largest_tag_ = found ? *bound : 32767;
  control->enlist(id, &log_of_operations);
}

Communicator::Data::~Data() {
  finish_gathers();
  transport.reset();
  control->strike(id);
  int finalized = 0;
  MPI_Finalized(&finalized);
  // Freeing is collective; after a failure the others may never come.
  if (finalized || control->failed() || control->thrown_out() || comm == control->root()) return;
  MPI_Comm_free(&comm);
}

int Communicator::Data::next_tag() {
  const auto tags = static_cast<std::uint64_t>(largest_tag_ - Control::kTags + 1);
  return Control::kTags + static_cast<int>(exchanges++ % tags);
}

void Communicator::Data::log(std::string_view text) const {
  if (options.log) options.log(text);
}

void Communicator::Data::check_usable() {
  control->check();
  advance_gathers();
}

void Communicator::Data::fail(std::string text) {
  control->fail({Failure::Kind::kComplaint, control->rank(), std::move(text)});
}

void Communicator::Data::refuse(const std::string& doing, const std::string& text) {
  const Awaited refused{{}, [&] { return doing; }};
  const auto start = Clock::now();
  control->ask(id);
  while (static_cast<int>(control->answers().size()) < control->size() - 1 &&
         seconds_since(start) < control->patience()) {
    control->check();
    control->answer(0, [&] { return describe(refused); });
    std::this_thread::yield();
  }
  const std::string found = out_of_step(stall_of(refused, 0));
  if (found.empty()) fail(text);
  control->fail({Failure::Kind::kOutOfStep, control->rank(), fmt::format("{}; {}", found, text)});
}

void Communicator::Data::wait(const Awaited& awaited) {
  const ReturnMpiErrors guard;
  if (awaited.started) times.hidden += process_seconds() - *awaited.started;
  Watch watch;
  Seconds since;
  int idle_polls = 0;  // in a row
  for (;;) {
    if (control->failed()) control->check();
    advance_gathers();
    const Progress progress = poll(awaited);
    if (progress == Progress::kDone) return;
    if (progress == Progress::kSome) {
      watch = Watch{};
      idle_polls = 0;
      continue;
    }
    idle_polls = std::min(idle_polls + 1, kBusyPolls + 1);
    if (idle_polls < kBusyPolls) continue;
    if (idle_polls == kBusyPolls) since = thread_seconds();
    control->check();
    control->answer(seconds_since(watch.progress), [&] { return describe(awaited); });
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
  } catch (const SharedError&) {
    throw;
  } catch (const Error& error) {
    // MPI may have met another operation there than this one.
    refuse(awaited.describe(), fmt::format("rank {}: {}", control->rank(), error.what()));
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
    const auto describe_it = [] { return std::string("an all-gather"); };
    if (poll({test, describe_it}) != Progress::kDone) return;
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
  if (!finalized && !control->failed() && !control->thrown_out()) {
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

/// Asks twice: for a report after report_seconds, and so that the answers are there when
/// timeout_seconds have passed. A rank that was stopped itself finds both times over when it comes
/// back: it gives the others their time all the same.
void Communicator::Data::watch_over(const Awaited& awaited, Watch& watch) {
  using Stage = Watch::Stage;
  const double idle = seconds_since(watch.progress);
  const double patience = control->patience();
  if (watch.stage == Stage::kQuiet && idle > options.report_seconds) ask(watch, Stage::kAsked);
  if (watch.stage == Stage::kAsked && seconds_since(watch.asked) > patience) {
    report(awaited, idle);
    watch.stage = Stage::kReported;
  }
  const bool may_ask = watch.stage == Stage::kQuiet || watch.stage == Stage::kReported;
  if (may_ask && idle > options.timeout_seconds - patience) ask(watch, Stage::kAskedAgain);
  if (watch.stage != Stage::kAskedAgain) return;
  control->answers();
  if (idle <= options.timeout_seconds || seconds_since(watch.asked) <= patience) return;
  control->fail(judge(stall_of(awaited, idle)));
}

void Communicator::Data::ask(Watch& watch, Watch::Stage stage) const {
  control->ask(id);
  watch.asked = Clock::now();
  watch.stage = stage;
}

std::string Communicator::Data::describe(const Awaited& awaited) const {
  if (comm == control->root()) return awaited.describe();
  return fmt::format("{} in the group of ranks {} to {}", awaited.describe(), root_rank(0),
                     root_rank(size - 1));
}

Stall Communicator::Data::stall_of(const Awaited& awaited, double idle) const {
  Stall stall{.rank = control->rank(),
              .seconds = idle,
              .doing = describe(awaited),
              .first_member = first_member,
              .members = size,
              .ranks = control->size(),
              .accounts = control->answers()};
  if (awaited.peers) {
    for (const int member : awaited.peers()) stall.awaited.push_back(root_rank(member));
  }
  stall.accounts[control->rank()] = {log_of_operations, idle, stall.doing};
  return stall;
}

/// The lowest of the ranks that wait speaks for all; half the time, since they begin one after
/// another.
void Communicator::Data::report(const Awaited& awaited, double idle) const {
  const Stall stall = stall_of(awaited, idle);
  for (const auto& [teller, account] : stall.accounts) {
    if (teller < control->rank() && account.idle >= options.report_seconds / 2) return;
  }
  log(judge(stall).text);
}

}  // namespace knapformer
