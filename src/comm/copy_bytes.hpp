// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "comm/stream_copy.hpp"

namespace knapformer {

/// Whether the bytes that exchanges carry are in memory of the host.
inline constexpr bool kBytesOnHost =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace,
                               Kokkos::DefaultExecutionSpace::memory_space>::accessible;

/// On a device in the order of `exec`; on the host now, so that `exec` must be done with them.
/// `many`: with others that together are kManyBytes or more.
template <class To, class From>
void copy_bytes(const Kokkos::DefaultExecutionSpace& exec, std::byte* to, const std::byte* from,
                std::int64_t bytes, bool many = false) {
  using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
  constexpr std::int64_t kShort = 1 << 20;  // not worth a kernel of several threads
  const auto size = static_cast<std::size_t>(bytes);
  if (kBytesOnHost && (bytes <= kShort || exec.concurrency() == 1)) {
    many ? stream_copy(to, from, size) : static_cast<void>(std::memcpy(to, from, size));
  } else {
    Kokkos::deep_copy(exec, Kokkos::View<std::byte*, To, Unmanaged>(to, size),
                      Kokkos::View<const std::byte*, From, Unmanaged>(from, size));
  }
}

}  // namespace knapformer
