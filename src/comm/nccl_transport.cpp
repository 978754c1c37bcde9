// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/nccl_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory_resource>
#include <vector>

#include "comm/communicator_data.hpp"
#include "comm/nccl.hpp"
#include "comm/nccl_stream.hpp"
#include "comm/nccl_transfer.hpp"

namespace knapformer {
namespace {

/// Connecting takes memory and file handles on the host for as long as it lasts.
constexpr int kConnectedAtOnce = 16;

struct Round {
  using allocator_type = std::pmr::polymorphic_allocator<>;
  explicit Round(const allocator_type& memory = {}) : sends(memory), receives(memory) {}
  std::pmr::vector<SendRange> sends;
  std::pmr::vector<ReceiveRange> receives;
};

}  // namespace

bool nccl_built_in() { return true; }

std::optional<std::uint64_t> nccl_device() { return device_number(); }

std::unique_ptr<Transport> make_nccl_transport(Communicator::Data& comm) {
  return std::make_unique<NcclTransport>(comm);
}

NcclTransport::NcclTransport(Communicator::Data& comm)
    : comm_(comm), rounds_(comm.size), nccl_(comm) {
  connect_peers();
}

/// Sends a byte to each rank that is near enough and receives one, some distances at a time. All
/// ranks are as near to others as those are to them, so all do the same.
void NcclTransport::connect_peers() {
  const Exec exec;
  const int farthest = std::min((comm_.options.nccl_peers + 1) / 2, comm_.size / 2);
  const auto bytes = comm_.device_buffers->take(exec, 4 * static_cast<std::int64_t>(farthest));
  std::byte* next = bytes.get();
  const auto what = [] { return std::string("the set-up of NCCL's connections"); };
  for (int first = 1; first <= farthest; first += kConnectedAtOnce) {
    Round round;
    for (int d = first; d < std::min(first + kConnectedAtOnce, farthest + 1); ++d) {
      for (const int peer :
           {(comm_.rank + d) % comm_.size, (comm_.rank - d + comm_.size) % comm_.size}) {
        round.sends.push_back({peer, next++, 1});
        round.receives.push_back({peer, next++, 1});
      }
    }
    launch(stream_of(exec), round.sends, round.receives, what);
    wait_for(stream_of(exec), what);
  }
}

/// For everything in the stream.
void NcclTransport::wait_for(cudaStream_t stream, const std::function<std::string()>& what) {
  StreamMark mark;
  mark.record(stream);
  comm_.wait({[&] {
                nccl_.check_background();
                return mark.reached() ? Progress::kDone : Progress::kNone;
              },
              what});
}

void NcclTransport::launch(cudaStream_t stream, std::span<const SendRange> sends,
                           std::span<const ReceiveRange> receives,
                           const std::function<std::string()>& what) {
  const auto memory = comm_.host_memory.get();
  std::pmr::map<std::int64_t, Round> rounds(memory);
  std::pmr::map<int, std::int64_t> sent(memory);
  std::pmr::map<int, std::int64_t> received(memory);
  for (const SendRange& range : sends) {
    if (range.peer == comm_.rank || range.bytes == 0) continue;
    rounds[rounds_.round(comm_.rank, range.peer, sent[range.peer]++)].sends.push_back(range);
  }
  for (const ReceiveRange& range : receives) {
    if (range.peer == comm_.rank || range.bytes == 0) continue;
    rounds[rounds_.round(range.peer, comm_.rank, received[range.peer]++)].receives.push_back(range);
  }
  for (const auto& [index, round] : rounds) {
    const auto calls = [&] {
      for (const SendRange& range : round.sends) nccl_.send(range, stream);
      for (const ReceiveRange& range : round.receives) nccl_.receive(range, stream);
    };
    nccl_.group(std::ref(calls), what);
  }
}

std::shared_ptr<Transfer> NcclTransport::new_transfer(const Exec& exec) {
  return make_recycled<NcclTransfer>(comm_.host_memory, comm_, *this, exec);
}

template <class T>
void NcclTransport::all_reduce(const Exec& exec, const Kokkos::View<T*, Exec>& view,
                               ncclDataType_t type) {
  if (view.size() == 0) return;  // so it is on all ranks
  const auto what = [] { return std::string("an all-reduce"); };
  const cudaStream_t stream = stream_of(exec);
  try {
    nccl_.group([&] { nccl_.all_reduce_sum(view.data(), view.size(), type, stream); }, what);
    wait_for(stream, what);
  } catch (const std::exception& error) {
    nccl_.abort();
    if (!has_settled(stream)) keep_for_good(std::make_shared<Kokkos::View<T*, Exec>>(view));
    comm_.fail(
        fmt::format("rank {}: {}", comm_.control->rank(), error.what()));  // unless it has failed
  }
}

void NcclTransport::all_reduce_sum(const Exec& exec, const Kokkos::View<float*, Exec>& view) {
  all_reduce(exec, view, ncclFloat32);
}
void NcclTransport::all_reduce_sum(const Exec& exec, const Kokkos::View<double*, Exec>& view) {
  all_reduce(exec, view, ncclFloat64);
}

}  // namespace knapformer
