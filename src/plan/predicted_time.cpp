// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/predicted_time.hpp"

#include <algorithm>

namespace knapformer {
namespace {

/// Of an exchange in which so many rows go each way; `parts` of them are a whole row.
template <class Rows>
double seconds_of_rows(const Machine& machine, const CostModel& cost, const Rows& out,
                       const Rows& in, std::int64_t parts) {
  const double bytes = static_cast<double>(cost.d_model() * machine.bytes_per_element);
  const auto rows = [&](int tier) {
    return static_cast<double>(std::max(out[tier], in[tier])) / static_cast<double>(parts);
  };
  return rows(0) * bytes / machine.bandwidth_within + rows(1) * bytes / machine.bandwidth_between;
}

}  // namespace

std::vector<double> predicted_seconds(const PlacedSequences& placed, const CostModel& cost,
                                      const Machine& machine, const std::vector<double>& load) {
  const std::vector<RankTraffic> traffic = traffic_of(placed, machine.ranks_per_node);
  std::vector<double> seconds(placed.ranks);
  const double layers = static_cast<double>(machine.layers);
  for (std::int64_t rank = 0; rank < placed.ranks; ++rank) {
    const RankTraffic& of = traffic[rank];
    // q, k and v out and o back: the larger direction counts three times, then once.
    const double attention = kTensorsAroundAttention * seconds_of_rows(machine, cost, of.heads_out,
                                                                       of.heads_in, placed.heads) +
                             2 * machine.latency * static_cast<double>(of.bag_peers);
    const double routing = seconds_of_rows(machine, cost, of.routed_out, of.routed_in, 1) +
                           machine.latency * static_cast<double>(of.route_peers);
    seconds[rank] = load[rank] * seconds_per_work(machine, cost) +
                    layers * kAttentionPasses * attention + kTokenExchanges * routing;
  }
  return seconds;
}

}  // namespace knapformer
