// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "failing_new.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local int countdown = -1;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (countdown >= 0 && countdown-- == 0) throw std::bad_alloc();
  const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, size == 0 ? alignment : size);
  if (!memory) throw std::bad_alloc();
  return memory;
}

thread_local bool armed = false;

}  // namespace

namespace knapformer::test {

void fail_new(int n) {
  countdown = n;
  armed = n >= 0;
}

bool new_has_failed() { return armed && countdown < 0; }

}  // namespace knapformer::test

void* operator new(std::size_t bytes) { return allocate(bytes, 16); }
void* operator new[](std::size_t bytes) { return allocate(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
