// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/allocation_count.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> allocations = 0;

void* counted(void* memory) {
  ++allocations;
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The forms for arrays call these (C++20, [new.delete.array]); under a sanitizer they are its own.
void* operator new(std::size_t bytes) { return counted(std::malloc(bytes > 0 ? bytes : 1)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(unit, (bytes / unit + 1) * unit));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes > 0 ? bytes : 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace knapformer::test {

std::int64_t allocation_count() { return allocations; }

}  // namespace knapformer::test
