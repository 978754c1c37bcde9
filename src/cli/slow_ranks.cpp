// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/slow_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <knapformer/plan/error.hpp>

#include "plan/message.hpp"

namespace knapformer::cli {

std::vector<SlowRank> parse_slow_ranks(std::string_view list) {
  std::vector<SlowRank> slow;
  const auto fail = [&] {
    throw Error(fmt::format(
        "--slow-ranks is {}; expected ranks with factors of at least 1, such as 3:2,5:1.5", list));
  };
  for (const char *at = list.data(), *end = at + list.size();; ++at) {
    SlowRank next;
    const auto rank = std::from_chars(at, end, next.rank);
    if (rank.ec != std::errc() || rank.ptr == end || *rank.ptr != ':' || next.rank < 0) fail();
    const auto factor = std::from_chars(rank.ptr + 1, end, next.factor);
    if (factor.ec != std::errc() || (factor.ptr != end && *factor.ptr != ',')) fail();
    if (!(std::isfinite(next.factor) && next.factor >= 1)) fail();
    if (std::ranges::find(slow, next.rank, &SlowRank::rank) != slow.end()) {
      throw Error(fmt::format("--slow-ranks is {}; rank {} is there twice", list, next.rank));
    }
    slow.push_back(next);
    if (factor.ptr == end) return slow;
    at = factor.ptr;
  }
}

std::vector<double> slowdowns(const std::vector<SlowRank>& slow, std::int64_t ranks) {
  if (slow.empty()) return {};
  std::vector<double> factors(static_cast<std::size_t>(ranks), 1.0);
  for (const SlowRank& each : slow) {
    if (each.rank >= ranks) {
      throw Error(fmt::format("--slow-ranks: there is no rank {} among {}, counted from 0",
                              each.rank, plural(ranks, "rank")));
    }
    factors[static_cast<std::size_t>(each.rank)] = each.factor;
  }
  return factors;
}

}  // namespace knapformer::cli
