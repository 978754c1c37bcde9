// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/comm/communicator.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace knapformer {

enum class Progress { kNone, kSome, kDone };

/// One exchange with other ranks, as a transport carries it out. The ranges given to start() stay
/// valid until poll() returns kDone or withdraw() true.
class Transfer {
 public:
  virtual ~Transfer() = default;

  /// Sends and expects the ranges, of which those of this rank itself are left out. Throws when it
  /// cannot; what was begun is then withdrawn.
  virtual void start(std::span<const SendRange> sends, std::span<const ReceiveRange> receives,
                     std::uint64_t fingerprint) = 0;

  /// Advances the exchange. Throws when a peer's does not fit to it.
  virtual Progress poll() = 0;

  /// What it is and which peers it lacks, for people.
  virtual std::string describe() const = 0;

  /// Members that it lacks; empty: maybe any.
  virtual std::vector<int> waited_for() const { return {}; }

  /// All bytes are there: enqueues on the device what brings them where they belong.
  virtual void finish() = 0;

  /// Gives up what is pending. False when the memory may still be touched.
  virtual bool withdraw() = 0;
};

/// How the bytes of one communicator travel between its ranks.
class Transport {
 public:
  using Exec = Kokkos::DefaultExecutionSpace;

  virtual ~Transport() = default;

  virtual TransportKind kind() const = 0;

  /// In the recycled memory of the communicator.
  virtual std::shared_ptr<Transfer> new_transfer(const Exec& exec) = 0;

  /// In place; `view` has the same size on all ranks.
  virtual void all_reduce_sum(const Exec& exec, const Kokkos::View<float*, Exec>& view) = 0;
  virtual void all_reduce_sum(const Exec& exec, const Kokkos::View<double*, Exec>& view) = 0;
};

}  // namespace knapformer
