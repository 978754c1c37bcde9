// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/nccl_transfer.hpp"

#include "comm/communicator_data.hpp"
#include "comm/mpi_check.hpp"

namespace knapformer {

NcclTransfer::NcclTransfer(Communicator::Data& comm, NcclTransport& transport, const Exec& exec)
    : comm_(comm),
      transport_(transport),
      stream_(stream_of(exec)),
      tag_(comm.next_tag()),
      memory_(comm.host_memory.get()) {}

void NcclTransfer::start(std::span<const SendRange> sends, std::span<const ReceiveRange> receives,
                         std::uint64_t fingerprint) {
  const auto what = [this] { return describe(); };
  const auto peers = [this] { return waited_for(); };
  peers_ = exchange_peers(comm_.rank, sends, receives, fingerprint, memory_.resource());
  post_headers();
  comm_.wait({[this] { return poll_headers(); }, what, peers});
  transport_.launch(stream_, sends, receives, what);
  mark_.record(stream_);
}

void NcclTransfer::post_headers() {
  requests_.assign(2 * peers_.size(), MPI_REQUEST_NULL);
  indices_.resize(requests_.size());
  MPI_Request* request = requests_.data();
  for (ExchangePeer& peer : peers_) {
    check_mpi(MPI_Irecv(&peer.theirs, sizeof(ExchangeHeader), MPI_BYTE, peer.rank, tag_, comm_.comm,
                        request++),
              "MPI_Irecv");
  }
  for (const ExchangePeer& peer : peers_) {
    check_mpi(MPI_Isend(&peer.ours, sizeof(ExchangeHeader), MPI_BYTE, peer.rank, tag_, comm_.comm,
                        request++),
              "MPI_Isend");
  }
}

Progress NcclTransfer::poll_headers() {
  int completed = 0;
  check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &completed,
                         indices_.data(), MPI_STATUSES_IGNORE),
            "MPI_Testsome");
  if (completed == MPI_UNDEFINED) return Progress::kDone;
  for (int i = 0; i < completed; ++i) {
    const auto index = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    if (index < peers_.size()) verify(comm_, peers_[index]);
  }
  return completed > 0 ? Progress::kSome : Progress::kNone;
}

Progress NcclTransfer::poll() {
  transport_.nccl().check_background();
  return mark_.reached() ? Progress::kDone : Progress::kNone;
}

std::string NcclTransfer::describe() const { return describe_exchange(comm_, waited_for()); }

/// Those without a header, or when all headers are there, all: NCCL does not say whom it waits for.
std::vector<int> NcclTransfer::waited_for() const {
  std::vector<int> all;
  std::vector<int> without_header;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    all.push_back(peers_[i].rank);
    if (requests_[i] != MPI_REQUEST_NULL) without_header.push_back(peers_[i].rank);
  }
  return without_header.empty() ? all : without_header;
}

bool NcclTransfer::withdraw() {
  transport_.nccl().abort();
  const bool all_done = withdraw_messages(requests_, peers_.size());
  return has_settled(stream_) && all_done;
}

}  // namespace knapformer
