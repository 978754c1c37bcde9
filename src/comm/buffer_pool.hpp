// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <knapformer/comm/recycled.hpp>
#include <memory>
#include <utility>
#include <vector>

namespace knapformer {

/// Buffers that are used again step after step. Not for several threads at once.
template <class MemorySpace>
class BufferPool : public std::enable_shared_from_this<BufferPool<MemorySpace>> {
 public:
  using Exec = Kokkos::DefaultExecutionSpace;

  /// `host_memory` is for the handles.
  explicit BufferPool(RecycledMemory host_memory) : host_memory_(std::move(host_memory)) {}

  /// At least `bytes` bytes, for work in the order of `exec`; back in the pool with the last
  /// reference. Null for zero bytes.
  std::shared_ptr<std::byte> take(const Exec& exec, std::int64_t bytes) {
    if (bytes == 0) return {};
    Buffer buffer = find(exec, static_cast<std::size_t>(bytes));
    std::byte* data = buffer.memory.data();
    auto give_back = [pool = this->shared_from_this(), buffer](std::byte*) {
      pool->idle_.push_back(buffer);
    };
    return {data, std::move(give_back), RecycledAllocator<std::byte>(host_memory_)};
  }

  /// Of all buffers, idle or not.
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Buffer {
    Kokkos::View<std::byte*, MemorySpace> memory;
    Exec last_used_on;
  };

  /// The smallest idle buffer that is large enough. When none is, the largest one makes room for a
  /// new one with some slack, so that slowly growing demands do not allocate each time.
  Buffer find(const Exec& exec, std::size_t bytes) {
    constexpr std::size_t kUnit = 64;  // a cache line
    std::sort(idle_.begin(), idle_.end(),
              [](const Buffer& a, const Buffer& b) { return a.memory.size() < b.memory.size(); });
    auto found = std::find_if(idle_.begin(), idle_.end(),
                              [&](const Buffer& b) { return b.memory.size() >= bytes; });
    if (found == idle_.end()) {
      if (!idle_.empty()) {
        bytes_ -= static_cast<std::int64_t>(idle_.back().memory.size());
        idle_.pop_back();
      }
      const Buffer made{
          Kokkos::View<std::byte*, MemorySpace>(
              Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "KnapFormer::scratch"),
              (bytes + bytes / 4 + kUnit - 1) / kUnit * kUnit),
          exec};
      bytes_ += static_cast<std::int64_t>(made.memory.size());
      return made;
    }
    Buffer buffer = *found;
    idle_.erase(found);
    if (!(buffer.last_used_on == exec))
      buffer.last_used_on.fence("KnapFormer::scratch changes hands");
    buffer.last_used_on = exec;
    return buffer;
  }

  RecycledMemory host_memory_;
  std::vector<Buffer> idle_;
  std::int64_t bytes_ = 0;
};

}  // namespace knapformer
