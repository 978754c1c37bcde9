// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <knapformer/comm/communicator.hpp>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/buffer_pool.hpp"
#include "comm/control.hpp"
#include "comm/transport.hpp"

namespace knapformer {

/// Something that is waited for.
struct Awaited {
  std::function<Progress()> poll;                ///< advances it
  std::function<std::string()> describe;         ///< what it is and what it lacks, for people
  std::function<std::vector<int>()> peers = {};  ///< members that it lacks; null: maybe any
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
struct Communicator::Data {
  /// A root: takes `owned` over.
  Data(MPI_Comm owned, CommunicatorOptions given);
  /// A group of consecutive members of `parent`, the first of which has rank `first` there. Takes
  /// `owned` over.
  Data(MPI_Comm owned, Data& parent, int first);
  ~Data();
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;

  /// Called before anything is started. Throws the failure that made this communicator useless, or
  /// that another rank has told of. Advances what is under way.
  void check_usable();

  /// To be called, in the same order on all ranks, where a collective operation starts.
  void note(Operation operation) { log_of_operations.add(operation); }

  /// Returns when `awaited` is done. Ranks may outnumber cores, so the processor is yielded
  /// meanwhile.
  void wait(const Awaited& awaited);

  /// Waits for a non-blocking host collective and takes over its memory if it never completes.
  void wait(MPI_Request request, const char* function, std::shared_ptr<void> buffers);

  /// Tells all other ranks, and throws Error(text).
  [[noreturn]] void fail(std::string text);

  /// The same when what a peer does seems not to fit what this rank does in `doing`: asks the
  /// others who is out of step.
  [[noreturn]] void refuse(const std::string& doing, const std::string& text);

  /// A tag for the next exchange: calls come in the same order on every rank, so all use the same.
  int next_tag();

  /// By which a member is named to people: its rank in the root communicator.
  int root_rank(int member) const { return first_member + member; }

  void log(std::string_view text) const;

  std::shared_ptr<Control> control;  ///< of the root and all its groups
  MPI_Comm comm = MPI_COMM_NULL;
  CommunicatorOptions options;
  int rank = 0;
  int size = 1;
  int first_member = 0;  ///< in the root
  std::uint64_t id = 0;  ///< the same on all members; 0 is the root
  std::uint64_t splits = 0;
  std::uint64_t exchanges = 0;
  CommunicatorTimes times;
  std::deque<std::shared_ptr<HostGather::State>> gathers;  ///< under way, in the order started
  OperationLog log_of_operations;
  RecycledMemory host_memory = std::make_shared<std::pmr::unsynchronized_pool_resource>();
  using DeviceBuffers = BufferPool<Kokkos::DefaultExecutionSpace::memory_space>;
  std::shared_ptr<DeviceBuffers> device_buffers = std::make_shared<DeviceBuffers>(host_memory);
  std::shared_ptr<DeviceBuffers> lasting_buffers = std::make_shared<DeviceBuffers>(host_memory);
  std::unique_ptr<Transport> transport;

 private:
  using Clock = std::chrono::steady_clock;

  /// One call of wait().
  struct Watch {
    enum class Stage { kQuiet, kAsked, kReported, kAskedAgain };
    Clock::time_point progress = Clock::now();  ///< when there was some last
    Clock::time_point asked{};                  ///< when the others were asked what they do
    Stage stage = Stage::kQuiet;
  };

  void inspect(MPI_Comm owned);
  void advance_gathers();
  void finish_gathers();
  Progress poll(const Awaited& awaited);
  void watch_over(const Awaited& awaited, Watch& watch);
  void ask(Watch& watch, Watch::Stage stage) const;
  std::string describe(const Awaited& awaited) const;
  Stall stall_of(const Awaited& awaited, double idle) const;
  void report(const Awaited& awaited, double idle) const;

  int largest_tag_ = 0;
};

}  // namespace knapformer
