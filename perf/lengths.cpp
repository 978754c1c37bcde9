// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "lengths.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <span>

namespace knapformer::perf {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::int64_t kLongest = 131072;
constexpr std::int64_t kMaxTextTokens = 392;

// Neighbouring ranks with samples of one kind; visual tokens are those of a latent grid of 16 x 16
// pixels, a video having a latent frame for 3.4 of its own (arXiv 2508.06001, table 1).
struct Kind {
  std::int64_t ranks;
  std::int64_t samples;
  std::int64_t visual_tokens;
};

std::span<const Kind> kinds_of(std::string_view workload) {
  static const std::map<std::string_view, std::vector<Kind>> kKinds = {
      {"lowres", {{32, 32, 256}}},
      {"mixres", {{16, 4, 256}, {4, 5, 1024}, {4, 5, 4096}, {8, 1, 16384}}},
      {"joint",
       {{8, 4, 256},
        {2, 5, 1024},
        {2, 5, 4096},
        {4, 1, 16384},
        {1, 10, 4 * 256},
        {3, 1, 4 * 1024},
        {8, 2, 25 * 256},
        {4, 1, 25 * 1024}}}};
  return kKinds.at(workload);
}

void add_rank(Lengths& out, const Kind& kind, std::int64_t per_rank, std::mt19937_64& random) {
  std::uniform_real_distribution<double> factor(0.96, 1.04);
  std::uniform_int_distribution<std::int64_t> text(0, kMaxTextTokens);
  const auto visual =
      static_cast<std::int64_t>(static_cast<double>(kind.visual_tokens) * factor(random));
  const std::int64_t samples = per_rank > 0 ? per_rank : kind.samples;
  for (std::int64_t i = 0; i < samples; ++i) out.values.push_back(visual + text(random));
  out.offsets.push_back(std::ssize(out.values));
}

Lengths log_normal(std::int64_t ranks, std::int64_t per_rank, std::mt19937_64& random) {
  std::lognormal_distribution<double> length(std::log(2048.0), 1.0);
  Lengths out{{}, {0}};
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (std::int64_t i = 0; i < per_rank; ++i) {
      out.values.push_back(
          std::clamp<std::int64_t>(static_cast<std::int64_t>(length(random)), 1, kLongest));
    }
    out.offsets.push_back(std::ssize(out.values));
  }
  return out;
}

}  // namespace

Lengths make_lengths(std::string_view workload, std::int64_t ranks, std::int64_t per_rank) {
  std::mt19937_64 random(kSeed);
  if (workload == "lognormal") return log_normal(ranks, per_rank, random);
  Lengths out{{}, {0}};
  while (std::ssize(out.offsets) <= ranks) {
    for (const Kind& kind : kinds_of(workload)) {
      for (std::int64_t rank = 0; rank < kind.ranks; ++rank) {
        add_rank(out, kind, per_rank, random);
      }
    }
  }
  return out;
}

}  // namespace knapformer::perf
