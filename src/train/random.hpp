// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <random>

namespace knapformer {

/// A generator for one purpose, such as an epoch, or a step and a rank. The engine and its seeding
/// are fixed by the C++ standard; the distributions of the standard library are not, hence below().
using RandomEngine = std::mt19937_64;

/// Streams of different (seed, first, second) are unrelated.
inline RandomEngine random_stream(std::uint64_t seed, std::uint64_t first, std::uint64_t second) {
  // The finaliser of SplitMix64 (Steele, Lea and Flood, 2014) after each word.
  std::uint64_t state = 0;
  for (std::uint64_t word : {seed, first, second}) {
    state += word + 0x9e3779b97f4a7c15U;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebU;
    state ^= state >> 31;
  }
  return RandomEngine(state);
}

/// Uniform in [0, count), count at least 1.
inline std::int64_t below(RandomEngine& engine, std::int64_t count) {
  const auto n = static_cast<std::uint64_t>(count);
  const std::uint64_t uneven = (0 - n) % n;  // 2^64 mod n: as many draws would make it uneven
  std::uint64_t draw = engine();
  while (draw < uneven) draw = engine();
  return static_cast<std::int64_t>(draw % n);
}

}  // namespace knapformer
