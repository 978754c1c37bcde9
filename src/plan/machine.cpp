// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/plan/error.hpp>
#include <knapformer/plan/machine.hpp>
#include <string>

#include "plan/message.hpp"
#include "plan/require_range.hpp"

namespace knapformer {
void Machine::check(std::int64_t ranks) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  require_range("machine: ranks per node", ranks_per_node, 1, std::int64_t{1} << 24);
  require_range("machine: FLOP/s of a rank", flops, 1.0, 1e21);
  require_range("machine: the bandwidth within a node", bandwidth_within, 1.0, kInfinity);
  require_range("machine: the bandwidth between nodes", bandwidth_between, 1.0, kInfinity);
  require_range("machine: the latency", latency, 0.0, 1e3);
  require_range("machine: the number of layers", layers, 1, std::int64_t{1} << 20);
  require_range("machine: bytes per element", bytes_per_element, 1, 64);
  if (!speeds.empty() && std::ssize(speeds) != ranks) {
    throw Error("machine: " + plural(std::ssize(speeds), "speed") + " for " +
                plural(ranks, "rank") + "; give one for each, or none");
  }
  for (std::size_t rank = 0; rank < speeds.size(); ++rank) {
    require_range("machine: the speed of rank " + std::to_string(rank), speeds[rank], 1.0 / 1024,
                  1024.0);
  }
}

}  // namespace knapformer
