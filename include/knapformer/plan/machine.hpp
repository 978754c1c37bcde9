// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace knapformer {

/// What a plan's time is predicted for: the ranks, the links between them, and the model's depth.
///
/// In a step a rank computes four forward passes (backward counts two, recomputation one) at
/// `flops` times its speed. Ulysses exchanges happen before and after attention, three times a
/// layer (forward, recomputation, backward); tokens are routed four times (route, reverse route,
/// and their adjoints). An exchange takes the larger of the bytes sent and received over the
/// bandwidth, within and between nodes one after the other, plus a latency for every peer.
struct Machine {
  std::int64_t ranks_per_node = 8;     ///< consecutive ranks: rank r is on node r / ranks_per_node
  double flops = 400e12;               ///< of a rank of speed 1, per second
  double bandwidth_within = 300e9;     ///< bytes per second of a rank, to ranks of its node
  double bandwidth_between = 45e9;     ///< to ranks of other nodes
  double latency = 5e-6;               ///< seconds per peer and exchange
  std::int64_t layers = 57;            ///< of the model
  std::int64_t bytes_per_element = 2;  ///< of the rows that travel: 2 for bfloat16
  std::vector<double> speeds = {};     ///< relative, one for each rank; empty: all 1

  /// Communication costs nothing: plans then minimise the largest load.
  static Machine without_communication() {
    Machine machine;
    machine.bandwidth_within = machine.bandwidth_between = std::numeric_limits<double>::infinity();
    machine.latency = 0;
    return machine;
  }

  /// Throws Error, naming the field and its value, when a number is out of range or `speeds` is
  /// neither empty nor one for each of `ranks`: flops in [1, 1e21], bandwidths in [1, infinity],
  /// latency in [0, 1e3], speeds in [2^-10, 2^10], layers in [1, 2^20], bytes in [1, 64],
  /// ranks_per_node in [1, 2^24].
  void check(std::int64_t ranks) const;
};

}  // namespace knapformer
