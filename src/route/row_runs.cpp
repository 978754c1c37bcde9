// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "route/row_runs.hpp"

namespace knapformer {

RouteRuns find_route_runs(const Plan& plan, std::int64_t rank) {
  RouteRuns runs;
  RunList sends(runs.home, plan.ranks());
  RunList receives(runs.routed, plan.ranks());
  std::vector<std::int64_t> next_routed(static_cast<std::size_t>(plan.ranks()), 0);
  std::vector<std::int64_t> next_home(next_routed);
  for (std::int64_t s = 0; s < plan.sequences(); ++s) {
    const auto i = static_cast<std::size_t>(s);
    const std::int64_t home = plan.homes()[i];
    std::int64_t& home_row = next_home[static_cast<std::size_t>(home)];
    for (const Chunk& chunk : plan.chunks(s)) {
      std::int64_t& routed_row = next_routed[static_cast<std::size_t>(chunk.rank)];
      const std::int64_t from = home_row + chunk.first_token;
      if (home == rank) sends.add(chunk.rank, from, routed_row, chunk.tokens);
      if (chunk.rank == rank) {
        receives.add(home, routed_row, from, chunk.tokens);
        runs.chunks.push_back({s, routed_row, chunk});
      }
      routed_row += chunk.tokens;
    }
    home_row += plan.lengths()[i];
  }
  runs.home_rows = next_home[static_cast<std::size_t>(rank)];
  runs.routed_rows = next_routed[static_cast<std::size_t>(rank)];
  return runs;
}

}  // namespace knapformer
