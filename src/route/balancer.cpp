// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <knapformer/route/balancer.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace knapformer {
namespace {

constexpr std::int64_t kFirstCapacity = 64;

std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

/// The options in numbers that can be compared between ranks, and what each of them is called.
struct OptionNumbers {
  std::array<std::uint64_t, 20> values;
  static constexpr std::array<const char*, 20> kNames = {"topology",
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
                                                         "plan budget"};
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
           whole(options.plan_budget)}};
}

void check_same_options(const Communicator& group, const BalancerOptions& options) {
  const OptionNumbers mine = numbers_of(options);
  const auto all = group.all_gather(std::span<const OptionNumbers>(&mine, 1));
  for (std::size_t r = 1; r < all.size(); ++r) {
    const auto [here, there] =
        std::mismatch(all[r].values.begin(), all[r].values.end(), all[0].values.begin());
    if (here == all[r].values.end()) continue;
    const auto index = static_cast<std::size_t>(here - all[r].values.begin());
    throw Error(
        fmt::format("balancer: the options differ between ranks, first in the {} of rank {}; give "
                    "every rank those of rank 0",
                    OptionNumbers::kNames[index], r));
  }
}

enum class Problem : std::int64_t {
  kNone,
  kNegativeLength,
  kLongLength,
  kCostCount,
  kNegativeCost
};

/// What every rank says of itself, followed by its lengths and then its costs as far as there is
/// room.
struct Header {
  std::int64_t problem = 0;
  std::int64_t index = 0;  ///< of the sequence in question, and the offending value
  std::int64_t value = 0;
  std::int64_t sequences = 0;
  std::int64_t has_costs = 0;

  std::int64_t numbers() const { return has_costs ? 2 * sequences : sequences; }
};
constexpr std::size_t kHeaderNumbers = sizeof(Header) / sizeof(std::int64_t);

Header inspect(std::span<const std::int64_t> lengths, std::span<const std::int64_t> costs) {
  const auto sequences = static_cast<std::int64_t>(lengths.size());
  const auto complain = [](Problem problem, std::size_t index, std::int64_t value) {
    return Header{static_cast<std::int64_t>(problem), static_cast<std::int64_t>(index), value, 0,
                  0};
  };
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0) return complain(Problem::kNegativeLength, i, lengths[i]);
    if (lengths[i] > CostModel::kMaxLength) return complain(Problem::kLongLength, i, lengths[i]);
  }
  if (!costs.empty() && costs.size() != lengths.size()) {
    return complain(Problem::kCostCount, costs.size(), sequences);
  }
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (costs[i] < 0) return complain(Problem::kNegativeCost, i, costs[i]);
  }
  return {0, 0, 0, sequences, costs.empty() ? 0 : 1};
}

void throw_problem(std::size_t rank, const Header& header) {
  switch (static_cast<Problem>(header.problem)) {
    case Problem::kNone:
      return;
    case Problem::kNegativeLength:
      throw Error(fmt::format("rank {}: the length of sequence {} is {}; lengths are not negative",
                              rank, header.index, header.value));
    case Problem::kLongLength:
      throw Error(fmt::format(
          "rank {}: the length of sequence {} is {}; no more than {} tokens are planned for", rank,
          header.index, header.value, CostModel::kMaxLength));
    case Problem::kCostCount:
      throw Error(fmt::format(
          "rank {}: {} costs are given for {} sequences; give one for each, or none on any rank",
          rank, header.index, header.value));
    case Problem::kNegativeCost:
      throw Error(fmt::format("rank {}: the cost of sequence {} is {}; costs are not negative",
                              rank, header.index, header.value));
  }
}

/// All ranks' numbers, one block for each rank.
struct Metadata {
  std::vector<Header> headers;
  std::vector<std::vector<std::int64_t>> numbers;
};

/// Throws the same Error on every rank when one of them has a problem.
void check(const std::vector<Header>& headers) {
  std::optional<std::size_t> with;
  std::optional<std::size_t> without;
  for (std::size_t r = 0; r < headers.size(); ++r) {
    throw_problem(r, headers[r]);
    if (headers[r].sequences == 0) continue;
    auto& found = headers[r].has_costs ? with : without;
    if (!found) found = r;
  }
  if (with && without) {
    throw Error(
        fmt::format("rank {} gives costs and rank {} does not; give them on all ranks or on none",
                    *with, *without));
  }
}

Metadata share(const Communicator& group, const Header& mine, std::span<const std::int64_t> numbers,
               std::int64_t& capacity) {
  const auto room = static_cast<std::size_t>(capacity);
  const std::size_t block = kHeaderNumbers + room;
  std::vector<std::int64_t> sent(block, 0);
  const auto header = std::bit_cast<std::array<std::int64_t, kHeaderNumbers>>(mine);
  std::copy(header.begin(), header.end(), sent.begin());
  const std::size_t fits = std::min(numbers.size(), room);
  std::copy_n(numbers.begin(), fits, sent.begin() + kHeaderNumbers);
  const auto all = group.all_gather(std::span<const std::int64_t>(sent));

  Metadata result;
  std::int64_t most = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(group.size()); ++r) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(r * block);
    std::array<std::int64_t, kHeaderNumbers> theirs;
    std::copy_n(first, kHeaderNumbers, theirs.begin());
    result.headers.push_back(std::bit_cast<Header>(theirs));
    const std::int64_t count = result.headers.back().numbers();
    most = std::max(most, count);
    const auto start = first + kHeaderNumbers;
    result.numbers.emplace_back(start, start + std::min(count, capacity));
  }
  check(result.headers);
  if (most <= capacity) return result;

  const auto rest = group.all_gather_varying(numbers.subspan(fits));
  auto next = rest.values.begin();
  for (std::size_t r = 0; r < result.numbers.size(); ++r) {
    result.numbers[r].insert(result.numbers[r].end(), next, next + rest.counts[r]);
    next += rest.counts[r];
  }
  capacity = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(most)));
  return result;
}

}  // namespace

Balancer::Balancer(Communicator group, BalancerOptions options)
    : group_(std::move(group)),
      options_(std::move(options)),
      capacity_(std::make_shared<std::int64_t>(kFirstCapacity)) {
  check_same_options(group_, options_);
  if (!options_.topology.is_elastic() && options_.topology.ranks() != group_.size()) {
    throw Error(fmt::format("balancer: topology {} is for {} ranks, the group has {}",
                            options_.topology.name(), options_.topology.ranks(), group_.size()));
  }
  if (options_.heads < 1 || options_.heads > Plan::kMaxHeads) {
    throw Error(fmt::format("balancer: {} heads; give a number from 1 to {}", options_.heads,
                            Plan::kMaxHeads));
  }
  options_.machine.check(group_.size());
}

Routing Balancer::prepare(std::span<const std::int64_t> lengths,
                          std::span<const std::int64_t> costs) const {
  const Header mine = inspect(lengths, costs);
  std::vector<std::int64_t> numbers;
  if (mine.problem == 0) {
    numbers.assign(lengths.begin(), lengths.end());
    numbers.insert(numbers.end(), costs.begin(), costs.end());
  }
  const Metadata all = share(group_, mine, numbers, *capacity_);

  std::vector<std::int64_t> all_lengths;
  std::vector<std::int64_t> all_costs;
  std::vector<std::int64_t> offsets{0};
  for (std::size_t r = 0; r < all.headers.size(); ++r) {
    const auto first = all.numbers[r].begin();
    const auto middle = first + all.headers[r].sequences;
    all_lengths.insert(all_lengths.end(), first, middle);
    all_costs.insert(all_costs.end(), middle, all.numbers[r].end());
    offsets.push_back(static_cast<std::int64_t>(all_lengths.size()));
  }
  const PlanRequest request{.topology = options_.topology,
                            .cost = options_.cost,
                            .heads = options_.heads,
                            .lengths = all_lengths,
                            .offsets = offsets,
                            .costs = all_costs,
                            .machine = options_.machine,
                            .max_tokens_per_rank = options_.max_tokens_per_rank,
                            .max_attention_tokens_per_rank = options_.max_attention_tokens_per_rank,
                            .budget = options_.plan_budget};
  return Routing(group_, options_.balance ? make_plan(request) : make_home_plan(request));
}

}  // namespace knapformer
