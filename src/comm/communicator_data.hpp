// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <knapformer/comm/communicator.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/buffer_pool.hpp"
#include "comm/transport.hpp"

namespace knapformer {

/// Holds memory that MPI may still touch, for good. Rather that than MPI writing to freed memory;
/// and it cannot be freed late, since Kokkos may be gone by then.
void keep_for_good(std::shared_ptr<void> memory);

/// Something that is waited for.
struct Awaited {
  std::function<Progress()> poll;         ///< advances it
  std::function<std::string()> describe;  ///< what it is and what it lacks, for people
  std::optional<Seconds> started = {};  ///< when, by process_seconds(), if it may have been hidden
};

/// MPI uses its memory until it is done.
struct HostGather::State {
  std::vector<std::byte> mine;
  std::vector<std::byte> all;
  MPI_Request request = MPI_REQUEST_NULL;
  std::function<void()> then;
  bool done = false;
};

/// The state behind all handles of one communicator.
///
/// Three tags are set apart for what ranks tell each other outside of the collective order: that
/// one cannot go on, and what they wait for, when one that has waited too long asks. Such notes are
/// looked for while waiting only.
struct Communicator::Data {
  Data(MPI_Comm owned, CommunicatorOptions given);
  ~Data();
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;

  /// Called before anything is started. Throws the failure that made this communicator useless, or
  /// that another rank has told of. Advances what is under way.
  void check_usable();

  /// Returns when `awaited` is done. Ranks may outnumber cores, so the processor is yielded
  /// meanwhile.
  void wait(const Awaited& awaited);

  /// Waits for a non-blocking host collective and takes over its memory if it never completes.
  void wait(MPI_Request request, const char* function, std::shared_ptr<void> buffers);

  /// Tells all other ranks, and throws Error(text).
  [[noreturn]] void fail(std::string text);

  /// A tag for the next exchange: calls come in the same order on every rank, so all use the same.
  int next_tag();

  void log(std::string_view text) const;

  MPI_Comm comm = MPI_COMM_NULL;
  CommunicatorOptions options;
  int rank = 0;
  int size = 1;
  std::uint64_t exchanges = 0;
  CommunicatorTimes times;
  std::deque<std::shared_ptr<HostGather::State>> gathers;  ///< under way, in the order started
  std::string failure;  ///< why this communicator is of no use any more; empty while it is
  std::shared_ptr<BufferPool<Kokkos::DefaultExecutionSpace::memory_space>> device_buffers;
  std::unique_ptr<Transport> transport;

 private:
  using Clock = std::chrono::steady_clock;

  /// One call of wait().
  struct Watch {
    Clock::time_point progress = Clock::now();  ///< when there was some last
    Clock::time_point asked{};                  ///< when the others were asked what they wait for
    bool reported = false;
    std::map<int, std::string> answers;  ///< what the others wait for
  };

  void advance_gathers();
  void finish_gathers();
  Progress poll(const Awaited& awaited);
  bool receive_note(int tag, int& source, std::string& text);
  void read_failures();
  void answer_questions(const Awaited& awaited);
  void watch_over(const Awaited& awaited, Watch& watch);
  void tell(int peer, int tag, std::string_view text);
  void tell_all(int tag, std::string_view text);

  int largest_tag_ = 0;
  struct Note {
    std::shared_ptr<std::string> text;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::vector<Note> notes_;  ///< sent, or being sent
};

}  // namespace knapformer
