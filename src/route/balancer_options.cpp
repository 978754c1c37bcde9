// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "route/balancer_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/verdict.hpp"
#include "plan/message.hpp"

namespace knapformer {
namespace {

std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

/// The options in numbers that can be compared between ranks, and what each of them is called.
struct OptionNumbers {
  std::array<std::uint64_t, 22> values;
  static constexpr std::array<const char*, 22> kNames = {"topology",
                                                         "heads",
                                                         "balance",
                                                         "cost model",
                                                         "cost model",
                                                         "cost model",
                                                         "cost model",
                                                         "cost model",
                                                         "cost model",
                                                         "ranks per node",
                                                         "FLOP/s",
                                                         "bandwidth within nodes",
                                                         "bandwidth between nodes",
                                                         "latency",
                                                         "layers",
                                                         "bytes per element",
                                                         "rank speeds",
                                                         "cap on tokens",
                                                         "cap on attention tokens",
                                                         "plan budget",
                                                         "adaptation to speed",
                                                         "speed estimate"};
};

std::uint64_t hash(const std::vector<double>& numbers) {
  return hash(std::string_view(reinterpret_cast<const char*>(numbers.data()),
                               numbers.size() * sizeof(double)));
}

OptionNumbers numbers_of(const BalancerOptions& options) {
  const auto high = [](Work work) { return static_cast<std::uint64_t>(work >> 64); };
  const auto low = [](Work work) { return static_cast<std::uint64_t>(work); };
  const auto whole = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  const CostModel& cost = options.cost;
  const Machine& machine = options.machine;
  return {{hash(options.topology.name()),
           whole(options.heads),
           options.balance,
           high(cost.per_sequence()),
           low(cost.per_sequence()),
           high(cost.per_token()),
           low(cost.per_token()),
           high(cost.per_token_pair()),
           low(cost.per_token_pair()),
           whole(machine.ranks_per_node),
           bits(machine.flops),
           bits(machine.bandwidth_within),
           bits(machine.bandwidth_between),
           bits(machine.latency),
           whole(machine.layers),
           whole(machine.bytes_per_element),
           hash(machine.speeds),
           whole(options.max_tokens_per_rank),
           whole(options.max_attention_tokens_per_rank),
           whole(options.plan_budget),
           options.adapt_to_speed,
           hash(options.speed_estimate)}};
}

/// Blames the ranks that are fewer; of as many, not those with rank 0.
void check_same_options(const Communicator& group, const BalancerOptions& options) {
  const OptionNumbers mine = numbers_of(options);
  const auto all = group.all_gather(std::span<const OptionNumbers>(&mine, 1));
  for (std::size_t i = 0; i < mine.values.size(); ++i) {
    std::map<std::uint64_t, std::vector<int>> ranks;
    for (int r = 0; r < group.size(); ++r) {
      ranks[all[static_cast<std::size_t>(r)].values[i]].push_back(group.root_rank(r));
    }
    if (ranks.size() == 1) continue;
    const auto weight = [](const auto& each) {
      return std::pair(each.second.size(), -each.second.front());
    };
    const auto most = std::ranges::max_element(
        ranks, [&](const auto& a, const auto& b) { return weight(a) < weight(b); });
    std::vector<int> strays;
    for (const auto& [value, having] : ranks) {
      if (value != most->first) strays.insert(strays.end(), having.begin(), having.end());
    }
    std::ranges::sort(strays);
    throw SharedError(fmt::format(
        "balancer: the options differ between ranks, first in the {} of {}, not that of {}; give "
        "all ranks the same",
        OptionNumbers::kNames[i], name_ranks(strays), name_ranks(most->second)));
  }
}

void check_speed_estimate(const std::vector<double>& speeds, int ranks) {
  if (!speeds.empty() && std::ssize(speeds) != ranks) {
    throw SharedError(fmt::format("balancer: a speed estimate for {} is given, the group has {}",
                                  plural(std::ssize(speeds), "rank"), ranks));
  }
  for (std::size_t rank = 0; rank < speeds.size(); ++rank) {
    if (speeds[rank] >= 0x1p-10 && speeds[rank] <= 0x1p10) continue;
    throw SharedError(
        fmt::format("balancer: the speed estimate of rank {} is {}; it must be in [{}, {}]", rank,
                    speeds[rank], 0x1p-10, 0x1p10));
  }
}

}  // namespace

void check_options(const Communicator& group, const BalancerOptions& options) {
  check_same_options(group, options);
  if (!options.topology.is_elastic() && options.topology.ranks() != group.size()) {
    throw SharedError(fmt::format("balancer: topology {} is for {}, the group has {}",
                                  options.topology.name(), plural(options.topology.ranks(), "rank"),
                                  group.size()));
  }
  if (options.heads < 1 || options.heads > Plan::kMaxHeads) {
    throw SharedError(fmt::format("balancer: {} heads; give a number from 1 to {}", options.heads,
                                  Plan::kMaxHeads));
  }
  options.machine.check(group.size());
  check_speed_estimate(options.speed_estimate, group.size());
}

std::uint64_t hash_of(const BalancerOptions& options) {
  const OptionNumbers numbers = numbers_of(options);
  return hash(std::string_view(reinterpret_cast<const char*>(numbers.values.data()),
                               sizeof(numbers.values)));
}

}  // namespace knapformer
