// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/quantities.hpp"

#include <fmt/format.h>

#include <cmath>

#include "plan/message.hpp"

namespace knapformer::cli {
namespace {

constexpr double kNextPrefix = 999.95;  // what four digits would round up to 1000

}  // namespace

std::string quantity(double value, const char* unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  if (std::isinf(value)) return fmt::format("unlimited {}", unit);
  int prefix = 0;
  for (; value >= kNextPrefix && prefix < 5; ++prefix) value /= 1000;
  return fmt::format("{:.4g} {}{}", value, kPrefixes[prefix], unit);
}

std::string duration(double seconds) {
  if (seconds >= kNextPrefix * 1e-3) return fmt::format("{:.4g} s", seconds);
  if (seconds >= kNextPrefix * 1e-6) return fmt::format("{:.4g} ms", 1e3 * seconds);
  return fmt::format("{:.4g} us", 1e6 * seconds);
}

std::string describe(const Machine& machine) {
  return fmt::format("{} a node; {} a rank{}; {} within and {} between nodes, {} a peer",
                     plural(machine.ranks_per_node, "rank"), quantity(machine.flops, "FLOP/s"),
                     machine.speeds.empty() ? "" : " of speed 1, speeds differ",
                     quantity(machine.bandwidth_within, "B/s"),
                     quantity(machine.bandwidth_between, "B/s"), duration(machine.latency));
}

}  // namespace knapformer::cli
