// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <utility>

namespace knapformer {

/// Host memory for what lives as long as one operation, from a pool that uses it again. Not for
/// several threads at once.
using RecycledMemory = std::shared_ptr<std::pmr::memory_resource>;

/// Keeps the pool alive for as long as there is something in it.
template <class T>
class RecycledAllocator {
 public:
  using value_type = T;  ///< of an allocator

  /// Of the memory of this pool.
  explicit RecycledAllocator(RecycledMemory memory) : memory_(std::move(memory)) {}
  template <class U>
  /// The same pool, for another type.
  RecycledAllocator(const RecycledAllocator<U>& other) : memory_(other.memory()) {}

  /// Memory for `count` objects, or std::bad_alloc.
  T* allocate(std::size_t count) {
    return static_cast<T*>(memory_->allocate(count * sizeof(T), alignof(T)));
  }
  /// Gives `count` objects back to the pool.
  void deallocate(T* data, std::size_t count) noexcept {
    memory_->deallocate(data, count * sizeof(T), alignof(T));
  }

  /// The pool.
  const RecycledMemory& memory() const { return memory_; }
  template <class U>
  /// Whether one can free what the other has allocated.
  bool operator==(const RecycledAllocator<U>& other) const {
    return memory_ == other.memory();
  }

 private:
  RecycledMemory memory_;
};

/// std::make_shared with memory of the pool.
template <class T, class... Arguments>
std::shared_ptr<T> make_recycled(const RecycledMemory& memory, Arguments&&... arguments) {
  return std::allocate_shared<T>(RecycledAllocator<T>(memory),
                                 std::forward<Arguments>(arguments)...);
}

}  // namespace knapformer
