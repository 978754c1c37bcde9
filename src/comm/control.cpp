// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/control.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <knapformer/comm/shared_error.hpp>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

#include "comm/mpi_check.hpp"

namespace knapformer {
namespace {

constexpr int kFailureTag = 0;   // "we cannot go on, because ..."
constexpr int kQuestionTag = 1;  // "what do you do?"
constexpr int kAnswerTag = 2;    // "I wait for ..."

// Short enough to be sent eagerly by every MPI: the receiver may never look.
constexpr std::size_t kLongestNote = 1000;

// How long what is under way may take to complete without a rank that has done its part and left.
constexpr double kSecondsAfterDeparture = 1;

struct FailureHead {
  Failure::Kind kind;
  int rank;
};
struct Question {
  std::int64_t number;
  std::uint64_t communicator;
};
struct AnswerHead {
  std::int64_t number;
  double idle;
  OperationLog log;
};

/// A head and a text, which is cut to what fits into a note.
template <class Head>
std::string pack(const Head& head, std::string_view text) {
  static_assert(std::is_trivially_copyable_v<Head> && sizeof(Head) < kLongestNote / 2);
  std::string bytes(sizeof(Head), '\0');
  std::memcpy(bytes.data(), &head, sizeof(Head));
  return bytes.append(text.substr(0, kLongestNote - sizeof(Head)));
}

template <class Head>
Head unpack(const std::string& bytes, std::string& text) {
  if (bytes.size() < sizeof(Head)) throw Error("communicator: a note between ranks is cut short");
  Head head;
  std::memcpy(&head, bytes.data(), sizeof(Head));
  text = bytes.substr(sizeof(Head));
  return head;
}

}  // namespace

void keep_for_good(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Control::Control(MPI_Comm root, double patience)
    : comm_(root), patience_(patience), exceptions_(std::uncaught_exceptions()) {
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

Control::~Control() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  const ReturnMpiErrors guard;
  // The others may wait for a rank that an exception takes away.
  if (!failed() && thrown_out()) {
    tell_all(kFailureTag,
             pack(FailureHead{Failure::Kind::kDeparture, rank_},
                  fmt::format("rank {}: an exception has destroyed its communicator", rank_)));
  }
  for (Note& note : notes_) {
    int done = 0;
    MPI_Test(&note.request, &done, MPI_STATUS_IGNORE);
    if (!done) keep_for_good(std::move(note.bytes));
  }
  // Freeing is collective; after a failure the others may never come.
  if (!failed() && !thrown_out()) MPI_Comm_free(&comm_);
}

bool Control::thrown_out() const { return std::uncaught_exceptions() > exceptions_; }

void Control::check() {
  if (!failure_ && !receive_failure() && !departure_counts()) return;
  if (!settled_) settle();
  throw SharedError(failure_->text);
}

void Control::fail(Failure failure) {
  if (!failure_ && !receive_failure()) {
    failure.text.resize(std::min(failure.text.size(), kLongestNote - sizeof(FailureHead)));
    learn(std::move(failure));
  }
  if (!settled_) settle();
  throw SharedError(failure_->text);
}

/// Whether there is a failure that counts already.
bool Control::receive_failure() {
  int source = 0;
  const auto bytes = receive(kFailureTag, source);
  if (!bytes) return false;
  heard_.insert(source);
  Failure told;
  const auto head = unpack<FailureHead>(*bytes, told.text);
  told.kind = head.kind;
  told.rank = head.rank;
  if (told.kind == Failure::Kind::kDeparture && !failure_) {
    if (!departure_) departure_heard_ = std::chrono::steady_clock::now();
    departure_ = departure_ ? std::min(*departure_, told) : told;
    return false;
  }
  learn(std::move(told));
  return true;
}

/// Of all that is known, departures included, the smallest counts: the same set gives the same
/// failure in whichever order it became known.
void Control::learn(Failure failure) {
  for (const auto& known : {failure_, departure_}) {
    if (known) failure = std::min(*known, failure);
  }
  failure_ = std::move(failure);
}

bool Control::departure_counts() {
  if (!departure_) return false;
  if (seconds_since(departure_heard_) < std::min(kSecondsAfterDeparture, patience_)) return false;
  learn(*departure_);
  return true;
}

void Control::settle() {
  tell_all(kFailureTag, pack(FailureHead{failure_->kind, failure_->rank}, failure_->text));
  const auto start = std::chrono::steady_clock::now();
  try {
    while (static_cast<int>(heard_.size()) < size_ - 1 && seconds_since(start) < patience_) {
      if (!receive_failure()) std::this_thread::yield();
    }
  } catch (const Error&) {
    // MPI itself fails: what is known must do.
  }
  settled_ = true;
}

void Control::ask(std::uint64_t id) {
  ++question_;
  answers_.clear();
  tell_all(kQuestionTag, pack(Question{question_, id}, {}));
}

const std::map<int, Account>& Control::answers() {
  int source = 0;
  while (const auto bytes = receive(kAnswerTag, source)) {
    std::string doing;
    const auto head = unpack<AnswerHead>(*bytes, doing);
    if (head.number == question_) answers_[source] = {head.log, head.idle, std::move(doing)};
  }
  return answers_;
}

void Control::answer(double idle, const std::function<std::string()>& doing) {
  int source = 0;
  while (const auto bytes = receive(kQuestionTag, source)) {
    std::string empty;
    const auto question = unpack<Question>(*bytes, empty);
    const auto log = logs_.find(question.communicator);
    const AnswerHead head{question.number, idle,
                          log == logs_.end() ? OperationLog{} : *log->second};
    tell(source, kAnswerTag, pack(head, doing()));
  }
}

std::optional<std::string> Control::receive(int tag, int& source) {
  int there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  check_mpi(MPI_Improbe(MPI_ANY_SOURCE, tag, comm_, &there, &message, &status), "MPI_Improbe");
  if (!there) return std::nullopt;
  const ReturnMpiErrors guard;
  int length = 0;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
  std::string bytes(static_cast<std::size_t>(length), '\0');
  source = status.MPI_SOURCE;
  check_mpi(MPI_Mrecv(bytes.data(), length, MPI_BYTE, &message, &status), "MPI_Mrecv");
  return bytes;
}

void Control::tell(int peer, int tag, std::string_view bytes) {
  const ReturnMpiErrors guard;
  std::erase_if(notes_, [](Note& note) {
    int done = 0;
    MPI_Test(&note.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
  const auto note = std::make_shared<std::string>(bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  // Best effort: there is nobody to report an error to that is not failing already.
  MPI_Isend(note->data(), static_cast<int>(note->size()), MPI_BYTE, peer, tag, comm_, &request);
  notes_.push_back({note, request});
}

void Control::tell_all(int tag, std::string_view bytes) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) tell(peer, tag, bytes);
  }
}

}  // namespace knapformer
