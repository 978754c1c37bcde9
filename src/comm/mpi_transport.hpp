// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <memory>

#include "comm/buffer_pool.hpp"
#include "comm/transport.hpp"

namespace knapformer {

/// Non-blocking point-to-point messages, from and into device memory where MPI can read it, through
/// pinned host memory otherwise. Belongs to `comm`, which outlives it.
class MpiTransport : public Transport {
 public:
  using HostBuffers = BufferPool<Kokkos::SharedHostPinnedSpace>;

  explicit MpiTransport(Communicator::Data& comm);
  TransportKind kind() const override { return TransportKind::kMpi; }
  std::shared_ptr<Transfer> new_transfer(const Exec& exec) override;
  void all_reduce_sum(const Exec& exec, const Kokkos::View<float*, Exec>& view) override;
  void all_reduce_sum(const Exec& exec, const Kokkos::View<double*, Exec>& view) override;

 private:
  template <class T>
  void all_reduce(const Exec& exec, const Kokkos::View<T*, Exec>& view);

  Communicator::Data& comm_;
  std::shared_ptr<HostBuffers> buffers_;
};

}  // namespace knapformer
