// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace knapformer {

/// From here on, what one operation copies is not in the caches when it is used.
inline constexpr std::int64_t kManyBytes = std::int64_t{4} << 20;

/// std::memcpy past the caches, where the processor can: memory that is about to be overwritten is
/// not read first. The C library does so for single ranges of tens of megabytes alone.
inline void stream_copy(void* to, const void* from, std::size_t bytes) {
#ifdef __SSE2__
  constexpr std::size_t kLine = 64;
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(out) % kLine;
  if (bytes >= before + kLine) {
    std::memcpy(out, in, before);
    out += before;
    in += before;
    bytes -= before;
    for (; bytes >= kLine; bytes -= kLine, in += kLine, out += kLine) {
      const auto* words = reinterpret_cast<const __m128i*>(in);
      auto* line = reinterpret_cast<__m128i*>(out);
      const __m128i a = _mm_loadu_si128(words);
      const __m128i b = _mm_loadu_si128(words + 1);
      const __m128i c = _mm_loadu_si128(words + 2);
      const __m128i d = _mm_loadu_si128(words + 3);
      _mm_stream_si128(line, a);
      _mm_stream_si128(line + 1, b);
      _mm_stream_si128(line + 2, c);
      _mm_stream_si128(line + 3, d);
    }
    _mm_sfence();
  }
  std::memcpy(out, in, bytes);
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace knapformer
