// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <optional>

namespace knapformer {

/// A collective operation, as every rank of a communicator must start it.
struct Operation {
  enum class Kind : std::uint64_t {
    kBarrier,
    kAllGather,
    kAllGatherVarying,
    kAllReduce,
    kExchange
  };
  Kind kind = Kind::kBarrier;
  std::uint64_t fingerprint = 0;  ///< of what the ranks must agree on: a size, or a hash

  friend auto operator<=>(const Operation&, const Operation&) = default;
  friend bool operator==(const Operation&, const Operation&) = default;
};

/// The operations that this rank has started on one communicator. Remembers the last of them.
/// Trivially copyable: it travels.
class OperationLog {
 public:
  void add(Operation operation) { last_[slot(started_++)] = operation; }

  std::int64_t started() const { return started_; }
  std::int64_t first_known() const { return std::max(std::int64_t{0}, started_ - kKept); }

  /// Number `number`, counted from 0; nothing when it is forgotten or has not been started.
  std::optional<Operation> find(std::int64_t number) const {
    if (number < first_known() || number >= started_) return std::nullopt;
    return last_[slot(number)];
  }

 private:
  static constexpr std::int64_t kKept = 24;
  static std::size_t slot(std::int64_t number) { return static_cast<std::size_t>(number % kKept); }

  std::int64_t started_ = 0;
  std::array<Operation, kKept> last_{};
};

}  // namespace knapformer
