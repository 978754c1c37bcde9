// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/memory_warning.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <knapformer/train/memory.hpp>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "cli/quantities.hpp"
#include "cli/run_options.hpp"
#include "plan/message.hpp"

namespace knapformer::cli {
namespace {

/// Of a rank; added up, of a node.
struct Demand {
  std::array<char, 256> node{};
  std::int64_t ranks = 1;
  double needed = 0;     ///< bytes
  double available = 0;  ///< bytes that programs can still have there; infinite if unknown
};

double available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    double kibibytes = 0;
    if (word == "MemAvailable:" && file >> kibibytes) return 1024 * kibibytes;
  }
  return std::numeric_limits<double>::infinity();
}

/// For the models of both placements, with everything at home. Text counts as images, which take a
/// little more.
double needed_bytes(const Communicator& world, const Device& exec, const DataSource& data,
                    const SimulationOptions& options, std::int64_t element_bytes) {
  const auto parts = static_cast<std::size_t>(options.micro_batches);
  std::vector<std::int64_t> lengths, offsets{0};
  for (int rank = 0; rank < world.size(); ++rank) {
    std::vector<std::int64_t> loaded = data.lengths(0, rank);
    std::ranges::sort(loaded, std::greater());  // the longest in one micro-batch, at worst
    const auto part = static_cast<std::int64_t>((loaded.size() + parts - 1) / parts);
    lengths.insert(lengths.end(), loaded.begin(), loaded.begin() + part);
    offsets.push_back(std::ssize(lengths));
  }
  const ModelShape shape = shape_of(options.model);
  const Plan plan = make_home_plan({.topology = Topology::elastic(),
                                    .cost = CostModel::transformer(shape.d_model),
                                    .heads = shape.plan_heads,
                                    .lengths = lengths,
                                    .offsets = offsets});
  const auto* mmdit = std::get_if<MMDiTConfig>(&options.model);
  const MemoryUse use = mmdit ? predicted_memory(exec, *mmdit, element_bytes, plan, world.rank(), 0)
                              : predicted_memory(exec, std::get<TransformerConfig>(options.model),
                                                 element_bytes, plan, world.rank());
  return 2 * static_cast<double>(use.total());
}

}  // namespace

void warn_of_memory(const Communicator& world, const Device& exec, const DataSource& data,
                    const SimulationOptions& options, std::int64_t element_bytes) {
  if (!Kokkos::SpaceAccessibility<Kokkos::HostSpace, Device::memory_space>::accessible) return;
  Demand mine{.available = available_bytes()};
  gethostname(mine.node.data(), mine.node.size() - 1);
  settle(world, [&] { mine.needed = needed_bytes(world, exec, data, options, element_bytes); });
  std::map<std::string, Demand> nodes;
  for (const Demand& rank : world.all_gather(std::span<const Demand>(&mine, 1))) {
    const auto [node, is_new] = nodes.emplace(rank.node.data(), rank);
    if (is_new) continue;
    ++node->second.ranks;
    node->second.needed += rank.needed;
    node->second.available = std::min(node->second.available, rank.available);
  }
  for (const auto& [name, node] : nodes) {
    if (world.rank() != 0 || node.needed <= node.available) continue;
    fmt::print(stderr,
               "knapformer: warning: {} on {} will need about {} of memory, and {} are left there; "
               "reduce --layers, --d-model or the samples of a rank, or start fewer ranks on a "
               "node\n",
               plural(node.ranks, "rank"), name, quantity(node.needed, "B"),
               quantity(node.available, "B"));
  }
}

}  // namespace knapformer::cli
