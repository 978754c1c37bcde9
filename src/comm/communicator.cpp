// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <knapformer/comm/communicator.hpp>
#include <knapformer/comm/shared_error.hpp>
#include <new>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "comm/communicator_data.hpp"
#include "comm/mpi_check.hpp"
#include "comm/nccl.hpp"
#include "comm/transport_choice.hpp"

namespace knapformer {
namespace {

constexpr std::int64_t kLargestMessage = std::int64_t{1} << 30;

void check_options(const CommunicatorOptions& options) {
  if (!(options.report_seconds > 0) || !(options.timeout_seconds > 0)) {
    throw Error(
        fmt::format("communicator: report_seconds {} and timeout_seconds {} must be positive",
                    options.report_seconds, options.timeout_seconds));
  }
  if (options.message_bytes < 1 || options.message_bytes > kLargestMessage) {
    throw Error(fmt::format("communicator: message_bytes is {}, not in [1, {}]",
                            options.message_bytes, kLargestMessage));
  }
  if (options.nccl_peers < 0) {
    throw Error(fmt::format("communicator: nccl_peers is {}, not 0 or more", options.nccl_peers));
  }
}

/// Waits without help from the others: there is no communicator of ours yet, and messages on
/// the caller's could meet the caller's own.
void wait_for_all(MPI_Request& request, std::shared_ptr<void> memory, const char* function,
                  const CommunicatorOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  bool reported = false;
  for (int done = 0;;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), function);
    if (done) return;
    const double seconds = seconds_since(start);
    const bool late = seconds > options.timeout_seconds;
    if (late || (!reported && seconds > options.report_seconds)) {
      reported = true;
      const std::string text = fmt::format(
          "communicator: {:.1f} s without progress in {}: some rank has ended, or does "
          "not construct a Communicator from the same MPI communicator",
          seconds, function);
      if (late) {
        keep_for_good(std::move(memory));
        throw SharedError(text);
      }
      if (options.log) options.log(text);
    }
    std::this_thread::yield();
  }
}

MPI_Comm duplicate(MPI_Comm comm, const CommunicatorOptions& options) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (!initialized || finalized) {
    throw Error("communicator: MPI is not running; construct it between MPI_Init and MPI_Finalize");
  }
  if (comm == MPI_COMM_NULL) throw Error("communicator: MPI_COMM_NULL was given");
  int inter = 0;
  check_mpi(MPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter");
  if (inter) throw Error("communicator: an intercommunicator was given; merge it first");
  const auto copy = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(comm, copy.get(), &request), "MPI_Comm_idup");
  wait_for_all(request, copy, "MPI_Comm_idup", options);
  return *copy;
}

/// Memory of a host collective, which MPI may use for longer than the call that started it.
struct Buffers {
  std::vector<std::byte> mine;
  std::vector<std::byte> all;
  std::vector<int> counts;
  std::vector<int> offsets;
  MPI_Datatype element = MPI_DATATYPE_NULL;
  ~Buffers() {
    if (element != MPI_DATATYPE_NULL) MPI_Type_free(&element);
  }
};

// Checked on all ranks, even when the options of this one are wrong, so that none waits for it.
std::string complaint_about(const CommunicatorOptions& options) {
  try {
    check_options(options);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

void check_same(const Communicator& group, const char* option, std::int64_t mine) {
  const auto all = group.all_gather(std::span<const std::int64_t>(&mine, 1));
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    throw SharedError(fmt::format("communicator: {} is {} on rank {} and {} on rank 0", option,
                                  all[r], r, all[0]));
  }
}

/// Collective. Communicators start with MPI, by which they find out what else they may use.
void replace_transport(const Communicator& group, Communicator::Data& data) {
  const TransportOffer mine = transport_offer(data.options.transport);
  const auto offers = group.all_gather(std::span<const TransportOffer>(&mine, 1));
  if (choose_transport(offers) == TransportKind::kMpi) return;
  group.guard([&] { data.transport = make_nccl_transport(data); });
}

}  // namespace

HostGather::HostGather(std::shared_ptr<Communicator::Data> communicator,
                       std::shared_ptr<State> state)
    : communicator_(std::move(communicator)), state_(std::move(state)) {}

HostGather::HostGather(HostGather&&) noexcept = default;

HostGather& HostGather::operator=(HostGather&& other) noexcept {
  std::swap(communicator_, other.communicator_);
  std::swap(state_, other.state_);
  return *this;
}

HostGather::~HostGather() {
  if (state_) state_->then = nullptr;
}

std::span<const std::byte> HostGather::wait() {
  if (!state_->done) {
    communicator_->wait({[&] { return state_->done ? Progress::kDone : Progress::kNone; },
                         [] { return std::string("an all-gather"); }});
  }
  return state_->all;
}

Communicator::Communicator(std::shared_ptr<Data> data) : data_(std::move(data)) {}

Communicator::Communicator(MPI_Comm comm, CommunicatorOptions options) {
  const std::string complaint = complaint_about(options);
  if (!complaint.empty()) options = {};
  const MPI_Comm copy = duplicate(comm, options);
  data_ = std::make_shared<Data>(copy, std::move(options));
  agree(complaint);
  check_same(*this, "message_bytes", data_->options.message_bytes);
  check_same(*this, "nccl_peers", data_->options.nccl_peers);
  replace_transport(*this, *data_);
}

int Communicator::rank() const { return data_->rank; }
int Communicator::size() const { return data_->size; }
int Communicator::root_rank(int member) const { return data_->root_rank(member); }
MPI_Comm Communicator::mpi() const { return data_->comm; }
bool Communicator::usable() const { return !data_->control->failed(); }
CommunicatorTimes Communicator::times() const { return data_->times; }
void Communicator::record_hidden(const Seconds& hidden) const { data_->times.hidden += hidden; }
const CommunicatorOptions& Communicator::options() const { return data_->options; }
TransportKind Communicator::transport() const { return data_->transport->kind(); }

Communicator Communicator::split(int group_size) const {
  const auto sizes = all_gather(std::span<const int>(&group_size, 1));
  for (int r = 0; r < size(); ++r) {
    const int given = sizes[static_cast<std::size_t>(r)];
    if (given != sizes[0]) {
      throw SharedError(fmt::format("split: the group size is {} on rank {} and {} on rank {}",
                                    given, root_rank(r), sizes[0], root_rank(0)));
    }
  }
  if (group_size < 1 || size() % group_size != 0) {
    throw SharedError(
        fmt::format("split: groups of {} ranks do not divide {} ranks", group_size, size()));
  }
  MPI_Comm group = MPI_COMM_NULL;
  const int index = rank() / group_size;
  check_mpi(MPI_Comm_split(data_->comm, index, rank(), &group), "MPI_Comm_split");
  Communicator part(std::make_shared<Data>(group, *data_, index * group_size));
  replace_transport(part, *part.data_);
  return part;
}

void Communicator::barrier() const {
  data_->check_usable();
  data_->note({Operation::Kind::kBarrier, 0});
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(data_->comm, &request), "MPI_Ibarrier");
  data_->wait(request, "a barrier", {});
}

HostGather Communicator::start_all_gather_bytes(const void* mine, std::size_t bytes,
                                                std::function<void()> then) const {
  data_->check_usable();
  data_->note({Operation::Kind::kAllGather, bytes});
  const int count = mpi_count(static_cast<std::int64_t>(bytes), "MPI_Iallgather");
  auto state = std::make_shared<HostGather::State>();
  state->mine.resize(bytes);
  state->all.resize(bytes * static_cast<std::size_t>(size()));
  state->then = std::move(then);
  if (bytes > 0) std::memcpy(state->mine.data(), mine, bytes);
  check_mpi(MPI_Iallgather(state->mine.data(), count, MPI_BYTE, state->all.data(), count, MPI_BYTE,
                           data_->comm, &state->request),
            "MPI_Iallgather");
  data_->gathers.push_back(state);
  return HostGather(data_, std::move(state));
}

void Communicator::all_gather_varying_bytes(const void* mine, std::size_t element_bytes,
                                            std::span<const std::int64_t> counts, void* all) const {
  data_->check_usable();
  data_->note({Operation::Kind::kAllGatherVarying, 0});
  auto buffers = std::make_shared<Buffers>();
  std::int64_t total = 0;
  for (const std::int64_t count : counts) {
    buffers->offsets.push_back(mpi_count(total, "MPI_Iallgatherv"));
    buffers->counts.push_back(mpi_count(count, "MPI_Iallgatherv"));
    total += count;
  }
  const int count = buffers->counts[static_cast<std::size_t>(rank())];
  buffers->mine.resize(static_cast<std::size_t>(count) * element_bytes);
  buffers->all.resize(static_cast<std::size_t>(total) * element_bytes);
  if (count > 0) std::memcpy(buffers->mine.data(), mine, buffers->mine.size());
  check_mpi(MPI_Type_contiguous(
                mpi_count(static_cast<std::int64_t>(element_bytes), "MPI_Type_contiguous"),
                MPI_BYTE, &buffers->element),
            "MPI_Type_contiguous");
  check_mpi(MPI_Type_commit(&buffers->element), "MPI_Type_commit");
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgatherv(buffers->mine.data(), count, buffers->element, buffers->all.data(),
                            buffers->counts.data(), buffers->offsets.data(), buffers->element,
                            data_->comm, &request),
            "MPI_Iallgatherv");
  data_->wait(request, "an all-gather of varying blocks", buffers);
  if (total > 0) std::memcpy(all, buffers->all.data(), buffers->all.size());
}

void Communicator::agree(std::string_view complaint) const {
  const auto all = all_gather_varying(std::span<const char>(complaint));
  if (all.values.empty()) return;
  std::string_view rest(all.values.data(), all.values.size());
  std::vector<std::string_view> complaints;
  for (const std::int64_t count : all.counts) {
    complaints.push_back(rest.substr(0, static_cast<std::size_t>(count)));
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  std::size_t first = 0;
  while (complaints[first].empty()) ++first;
  if (std::ranges::all_of(complaints, [&](auto each) { return each == complaints[first]; })) {
    throw SharedError(std::string(complaints[first]));
  }
  throw SharedError(
      fmt::format("rank {}: {}", root_rank(static_cast<int>(first)), complaints[first]));
}

void Communicator::fail(std::string_view complaint) const {
  data_->fail(fmt::format("rank {}: {}", data_->control->rank(), complaint));
}

void Communicator::fail_with_exception() const {
  try {
    throw;
  } catch (const SharedError& error) {  // not ours alone, but maybe of one group alone
    data_->fail(error.what());
  } catch (const std::bad_alloc&) {
    fail("out of memory");
  } catch (const std::exception& error) {
    fail(error.what());
  } catch (...) {
    fail("an exception that is no std::exception");
  }
}

const RecycledMemory& Communicator::host_memory() const { return data_->host_memory; }

std::shared_ptr<std::byte> Communicator::scratch(const Kokkos::DefaultExecutionSpace& exec,
                                                 std::int64_t bytes) const {
  return data_->device_buffers->take(exec, bytes);
}

std::shared_ptr<std::byte> Communicator::lasting_scratch(const Kokkos::DefaultExecutionSpace& exec,
                                                         std::int64_t bytes) const {
  return data_->lasting_buffers->take(exec, bytes);
}

std::int64_t Communicator::scratch_bytes() const {
  return data_->device_buffers->bytes() + data_->lasting_buffers->bytes();
}

}  // namespace knapformer
