// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <knapformer/comm/mpi.hpp>
#include <knapformer/comm/recycled.hpp>
#include <knapformer/comm/seconds.hpp>
#include <knapformer/comm/shared_error.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace knapformer {

/// Bytes for a peer, and bytes expected from one. Several ranges for one peer travel in the order
/// given.
struct SendRange {
  int peer = 0;                     ///< rank in the communicator
  const std::byte* data = nullptr;  ///< device memory; null only where there are no bytes
  std::int64_t bytes = 0;           ///< at least 0
};
/// Where bytes from a peer go; see SendRange.
struct ReceiveRange {
  int peer = 0;               ///< rank in the communicator
  std::byte* data = nullptr;  ///< device memory; null only where there are no bytes
  std::int64_t bytes = 0;     ///< at least 0
};

/// What carries exchanges and device collectives. Everything else travels over MPI.
enum class TransportKind {
  kAuto,  ///< NCCL where all ranks have it built in and a CUDA device of their own; MPI elsewhere
  kMpi,
  kNccl,  ///< an Error on all ranks where it cannot be had
};

/// How a Communicator moves bytes, and how long it waits.
struct CommunicatorOptions {
  TransportKind transport = TransportKind::kAuto;  ///< the same on all ranks

  /// Waiting without progress is reported to the log after this, by one of the ranks that wait.
  double report_seconds = 60;
  /// And fails after this. A rank that computes for longer without a collective call is taken for
  /// lost.
  double timeout_seconds = 600;
  std::function<void(std::string_view)> log;  ///< receives reports; none by default

  /// The largest single message; larger ranges travel in parts. The same on all ranks, at most 1
  /// GiB.
  std::int64_t message_bytes = std::int64_t{1} << 30;

  /// MPI is given device memory as it is. Off: it passes through pinned host memory, which an MPI
  /// that is not GPU-aware needs for memory that the host cannot read.
  bool direct = Kokkos::SpaceAccessibility<Kokkos::HostSpace,
                                           Kokkos::DefaultExecutionSpace::memory_space>::accessible;

  /// NCCL connects each rank with this many others when the communicator is made, the nearest by
  /// rank in both directions; each connection takes device memory. NCCL connects further ones when
  /// they first exchange something, which takes that exchange much longer. The same on all ranks.
  int nccl_peers = 64;
};

/// An exchange under way. Keeps what it was given alive until it is done. Movable, not copyable.
class Request {
 public:
  Request();
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();  ///< waits; an error is then reported to the log only

  /// Returns when everything sent may be reused and everything expected has arrived; device work
  /// that completes the exchange is then enqueued on the instance it was started with. Throws
  /// Error, naming the silent peers, after timeout_seconds without progress, and when a peer's
  /// exchange carries another fingerprint or other sizes than ours. A second wait does nothing.
  void wait();

  struct State;
  /// For the library: a handle of what it has started.
  explicit Request(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};

/// What this rank has spent on a communicator so far.
struct CommunicatorTimes {
  /// Waiting for ranks or bytes that were not there yet; CPU time of the waiting thread.
  Seconds waited;
  /// From the start of an operation until it was waited for, or was seen to be complete if that
  /// came first, while the rank did something else; CPU time of the process. Summed over
  /// operations, so it may exceed the time that has passed.
  Seconds hidden;
};

class HostGather;
template <class T>
class Gathering;

/// The ranks of one balancing group, or of the world. A handle: copies share the communicator.
///
/// Duplicates the MPI communicator given, so it never sees the caller's messages, and frees the
/// duplicate with the last handle, which must happen before Kokkos::finalize and MPI_Finalize. All
/// ranks call the collective functions in the same order. All handles of a communicator, and the
/// requests made with them, belong to one thread at a time, where they are destroyed too. MPI
/// errors become Error.
///
/// A rank that cannot go on (see fail() and guard(), and every Error that a Request throws) tells
/// all others, and each of them throws the same Error from the collective function it waits in or
/// calls next; when several ranks fail at once, all throw the Error of one of them. So does a
/// collective function without progress for timeout_seconds, with an Error that names the ranks
/// that give no answer, or that have called something else. The communicator and the groups split
/// from it, or it was split from, are then of no further use: the program should print the message
/// and call MPI_Abort. Messages number ranks as the communicator does that all were split from.
class Communicator {
 public:
  /// Collective over `comm`, an intra-communicator, which is duplicated. Throws Error on all ranks
  /// for options out of range, for those that must agree and do not, and for a transport that
  /// cannot be had.
  explicit Communicator(MPI_Comm comm, CommunicatorOptions options = {});

  int rank() const;      ///< of this process in the communicator
  int size() const;      ///< ranks of the communicator
  MPI_Comm mpi() const;  ///< the duplicate; no message of yours may travel on it
  const CommunicatorOptions& options() const;  ///< as given
  TransportKind transport() const;             ///< the one in use: kMpi or kNccl

  /// False once a failure has made it useless, see above. Not collective.
  bool usable() const;

  /// What this rank has spent on this communicator so far; groups split from it count their own.
  CommunicatorTimes times() const;
  /// Adds to times().hidden, for operations made of those below.
  void record_hidden(const Seconds& hidden) const;

  /// The number by which messages name `member`: its rank in the communicator that this one was
  /// split from, in the end; the same number where it was not.
  int root_rank(int member) const;

  /// Collective. Groups of `group_size` consecutive ranks; throws Error unless it divides size()
  /// and is the same on all ranks. A group shares the fate of the communicator that it comes from:
  /// when a rank fails in one, all ranks of all of them throw.
  ///
  /// All ranks are known to be there before MPI_Comm_split is called; one that is killed within
  /// that call leaves the others there, since MPI has no split that can be given up.
  Communicator split(int group_size) const;

  // --- Host collectives, for metadata. T is trivially copyable.

  /// Returns when every rank has called it.
  void barrier() const;

  /// One block of `mine.size()` elements from every rank, in rank order: size() * mine.size()
  /// elements.
  template <class T>
  std::vector<T> all_gather(std::span<const T> mine) const {
    return start_all_gather(mine).wait();
  }

  /// The same, started. `then` is called once when the blocks of all ranks are seen to be there: by
  /// whatever waits or starts something on this communicator, and must neither throw nor use it but
  /// to take the blocks. Gathers are seen to complete in the order in which they were started.
  template <class T>
  Gathering<T> start_all_gather(std::span<const T> mine, std::function<void()> then = {}) const;

  /// Blocks of different length, in rank order; counts[r] elements come from rank r.
  template <class T>
  struct Gathered {
    std::vector<T> values;             ///< of all ranks, one after another
    std::vector<std::int64_t> counts;  ///< how many of them each rank had
  };
  template <class T>
  /// Collective: the elements of all ranks, of which each may have any number, none included.
  Gathered<T> all_gather_varying(std::span<const T> mine) const {
    static_assert(std::is_trivially_copyable_v<T>);
    Gathered<T> out;
    const std::int64_t count = static_cast<std::int64_t>(mine.size());
    out.counts = all_gather(std::span<const std::int64_t>(&count, 1));
    std::size_t total = 0;
    for (std::int64_t n : out.counts) total += static_cast<std::size_t>(n);
    out.values.resize(total);
    all_gather_varying_bytes(mine.data(), sizeof(T), out.counts, out.values.data());
    return out;
  }

  /// Collective agreement on failure: every rank passes its own complaint, empty when all is well.
  /// If any is not, every rank throws the same Error: the complaint that all have in common, or
  /// "rank r: complaint" of the lowest rank that has one. The communicator stays usable.
  void agree(std::string_view complaint) const;

  /// Not collective: this rank cannot go on. Throws Error "rank r: complaint" here, and on every
  /// other rank as described above.
  [[noreturn]] void fail(std::string_view complaint) const;

  /// Not collective: returns what `work` returns. An exception that leaves it, of whatever kind,
  /// becomes fail() with its message. For work that one rank alone may fail in, while the others
  /// go on to a collective call.
  template <class Work>
  auto guard(Work&& work) const {
    try {
      return std::forward<Work>(work)();
    } catch (...) {
      fail_with_exception();
    }
  }

  // --- Device collectives. The view is contiguous. Over MPI, `exec` is fenced before MPI sees the
  // bytes; over NCCL, they run on its stream.

  /// Sums `view` over the ranks, in place; every rank gets the same bits. T is double or float.
  template <class T>
  void all_reduce_sum(const Kokkos::DefaultExecutionSpace& exec,
                      const Kokkos::View<T*, Kokkos::DefaultExecutionSpace>& view) const;

  // --- Exchange

  /// Collective. Starts sending and receiving byte ranges of device memory. Peers without bytes for
  /// each other exchange nothing; both sides must agree on the ranges of a pair. Own ranges are
  /// copied on `exec` while the others travel. All must stay valid until the request is done, for
  /// which `keep_alive` may hold them. `fingerprint` travels along and must be the same on both
  /// sides. `then` is called once by wait(), when all bytes have arrived.
  ///
  /// Over MPI, `exec` is fenced before MPI sees the bytes. Over NCCL, the bytes travel on the
  /// stream of `exec`, in the order of its work; the call returns when the peers have started the
  /// exchange too, and it is then that errors of theirs come to light.
  ///
  /// After an Error, `keep_alive` is never released while the transport may still touch its memory.
  Request start_exchange(const Kokkos::DefaultExecutionSpace& exec,
                         std::span<const SendRange> sends, std::span<const ReceiveRange> receives,
                         std::uint64_t fingerprint, std::shared_ptr<void> keep_alive = {},
                         std::function<void()> then = {}) const;

  /// Device memory for `bytes` bytes to be used on `exec`, from a pool that lives as long as the
  /// communicator. It returns there with the last reference, and work enqueued on `exec` may still
  /// use it then.
  std::shared_ptr<std::byte> scratch(const Kokkos::DefaultExecutionSpace& exec,
                                     std::int64_t bytes) const;
  /// The same for what lasts longer than an operation: from a pool of its own, so that it does not
  /// hold on to what many operations could take turns with.
  std::shared_ptr<std::byte> lasting_scratch(const Kokkos::DefaultExecutionSpace& exec,
                                             std::int64_t bytes) const;
  /// Device memory of both pools, whether in use or not.
  std::int64_t scratch_bytes() const;

  /// Host memory for what lives as long as an operation on this communicator.
  const RecycledMemory& host_memory() const;

  struct Data;

 private:
  explicit Communicator(std::shared_ptr<Data> data);
  [[noreturn]] void fail_with_exception() const;
  HostGather start_all_gather_bytes(const void* mine, std::size_t bytes,
                                    std::function<void()> then) const;
  void all_gather_varying_bytes(const void* mine, std::size_t element_bytes,
                                std::span<const std::int64_t> counts, void* all) const;
  std::shared_ptr<Data> data_;
};

/// A started all-gather of bytes. Movable, not copyable.
class HostGather {
 public:
  HostGather(HostGather&&) noexcept;
  HostGather& operator=(HostGather&&) noexcept;
  /// Does not wait: whatever next uses the communicator completes the gather, or its last handle
  /// does. Nothing comes then.
  ~HostGather();

  /// The blocks of all ranks. They stay here, and a second call returns at once. Throws Error as
  /// Request::wait does.
  std::span<const std::byte> wait();

  struct State;

 private:
  friend class Communicator;
  HostGather(std::shared_ptr<Communicator::Data> communicator, std::shared_ptr<State> state);
  std::shared_ptr<Communicator::Data> communicator_;
  std::shared_ptr<State> state_;
};

/// A started all-gather, see HostGather. wait() returns one block from every rank, in rank order.
template <class T>
class Gathering {
 public:
  /// For the library: the same bytes, as elements.
  explicit Gathering(HostGather gather) : gather_(std::move(gather)) {}
  /// One block from every rank, in rank order. Throws Error as Request::wait does.
  std::vector<T> wait() {
    const std::span<const std::byte> bytes = gather_.wait();
    std::vector<T> all(bytes.size() / sizeof(T));
    if (!all.empty()) std::memcpy(static_cast<void*>(all.data()), bytes.data(), bytes.size());
    return all;
  }

 private:
  HostGather gather_;
};

template <class T>
Gathering<T> Communicator::start_all_gather(std::span<const T> mine,
                                            std::function<void()> then) const {
  static_assert(std::is_trivially_copyable_v<T>);
  return Gathering<T>(
      start_all_gather_bytes(mine.data(), mine.size() * sizeof(T), std::move(then)));
}

}  // namespace knapformer
