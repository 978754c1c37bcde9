// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <knapformer/comm/mpi.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "comm/operation_log.hpp"
#include "comm/verdict.hpp"

namespace knapformer {

/// Holds memory that MPI may still touch, for good. Rather that than MPI writing to freed memory;
/// and it cannot be freed late, since Kokkos may be gone by then.
void keep_for_good(std::shared_ptr<void> memory);

double seconds_since(std::chrono::steady_clock::time_point start);

/// What the ranks of a root communicator, and so of all groups split from it, tell each other
/// outside of the order of collective calls: that one cannot go on, and what they do, when one that
/// has waited too long asks.
///
/// Notes travel on the root communicator, with tags set apart, and are looked for while waiting
/// only. They are best effort: small, so that MPI sends them without the receiver's help, and never
/// waited for.
///
/// All ranks must throw the same Error when several fail at once. So each tells all others of the
/// first failure that it knows, its own or another's, and waits until it has heard from all of
/// them, or for `patience` where some are silent. Then all know the same set, whose smallest
/// counts.
///
/// An exception that destroys a rank's communicator may be one that all ranks throw, which the
/// others are about to find out. So a departure counts after a while only, in which what they wait
/// for may complete.
class Control {
 public:
  static constexpr int kTags = 3;  ///< the smallest tags of the root are ours

  /// Takes the communicator over. `patience` is the time, in seconds, within which a rank that
  /// waits answers.
  Control(MPI_Comm root, double patience);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  MPI_Comm root() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  double patience() const { return patience_; }
  /// Whether some rank cannot go on.
  bool failed() const { return failure_ || departure_; }
  /// Whether an exception is leaving the scope that all this was made in.
  bool thrown_out() const;

  /// Throws the Error that ended the use of these communicators, if one did.
  void check();

  /// Tells all others, settles with them which failure counts, and throws it.
  [[noreturn]] void fail(Failure failure);

  /// A communicator is known to the others' questions by a number, the same on all its ranks.
  void enlist(std::uint64_t id, const OperationLog* log) { logs_[id] = log; }
  void strike(std::uint64_t id) { logs_.erase(id); }

  /// Asks all others what they do, and what they have done on communicator `id`. Earlier answers
  /// are forgotten.
  void ask(std::uint64_t id);
  /// Answers to the last question so far.
  const std::map<int, Account>& answers();
  /// Tells those who have asked.
  void answer(double idle, const std::function<std::string()>& doing);

 private:
  struct Note {
    std::shared_ptr<std::string> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void tell(int peer, int tag, std::string_view bytes);
  void tell_all(int tag, std::string_view bytes);
  std::optional<std::string> receive(int tag, int& source);
  bool receive_failure();
  void learn(Failure failure);
  bool departure_counts();
  void settle();

  MPI_Comm comm_;
  const double patience_;
  const int exceptions_;  ///< in flight when this was made
  int rank_ = 0;
  int size_ = 1;
  std::optional<Failure> failure_;
  std::optional<Failure> departure_;
  std::chrono::steady_clock::time_point departure_heard_{};
  bool settled_ = false;
  std::set<int> heard_;  ///< who has told of a failure
  std::int64_t question_ = 0;
  std::map<int, Account> answers_;
  std::map<std::uint64_t, const OperationLog*> logs_;
  std::vector<Note> notes_;  ///< sent, or being sent
};

}  // namespace knapformer
