// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "route/metadata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <knapformer/plan/cost_model.hpp>
#include <optional>

#include "plan/message.hpp"

namespace knapformer {
namespace {

constexpr std::size_t kHeaderNumbers = sizeof(RankHeader) / sizeof(std::int64_t);

enum class Problem : std::int64_t {
  kNone,
  kNegativeLength,
  kLongLength,
  kCostCount,
  kNegativeCost
};

void throw_problem(int rank, const RankHeader& header) {
  switch (static_cast<Problem>(header.problem)) {
    case Problem::kNone:
      return;
    case Problem::kNegativeLength:
      throw SharedError(
          fmt::format("rank {}: the length of sequence {} is {}; lengths are not negative", rank,
                      header.index, header.value));
    case Problem::kLongLength:
      throw SharedError(fmt::format(
          "rank {}: the length of sequence {} is {}; no more than {} tokens are planned for", rank,
          header.index, header.value, CostModel::kMaxLength));
    case Problem::kCostCount:
      throw SharedError(fmt::format("rank {}: {} for {}; give one for each, or none on any rank",
                                    rank, plural(header.index, "cost"),
                                    plural(header.value, "sequence")));
    case Problem::kNegativeCost:
      throw SharedError(
          fmt::format("rank {}: the cost of sequence {} is {}; costs are not negative", rank,
                      header.index, header.value));
  }
}

}  // namespace

RankHeader inspect(std::span<const std::int64_t> lengths, std::span<const std::int64_t> costs) {
  const auto sequences = static_cast<std::int64_t>(lengths.size());
  const auto complain = [](Problem problem, std::size_t index, std::int64_t value) {
    return RankHeader{.problem = static_cast<std::int64_t>(problem),
                      .index = static_cast<std::int64_t>(index),
                      .value = value};
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
  return {.sequences = sequences, .has_costs = costs.empty() ? 0 : 1};
}

std::vector<std::int64_t> pack_block(const RankHeader& header,
                                     std::span<const std::int64_t> numbers, std::int64_t room) {
  std::vector<std::int64_t> block(kHeaderNumbers + static_cast<std::size_t>(room), 0);
  const auto words = std::bit_cast<std::array<std::int64_t, kHeaderNumbers>>(header);
  std::copy(words.begin(), words.end(), block.begin());
  const std::size_t fits = std::min(numbers.size(), static_cast<std::size_t>(room));
  std::copy_n(numbers.begin(), fits, block.begin() + kHeaderNumbers);
  return block;
}

Metadata::Metadata(std::span<const std::int64_t> blocks, std::int64_t room) {
  const std::size_t size = kHeaderNumbers + static_cast<std::size_t>(room);
  for (; !blocks.empty(); blocks = blocks.subspan(size)) {
    std::array<std::int64_t, kHeaderNumbers> words;
    std::copy_n(blocks.begin(), kHeaderNumbers, words.begin());
    headers.push_back(std::bit_cast<RankHeader>(words));
    const auto first = blocks.begin() + kHeaderNumbers;
    numbers.emplace_back(first,
                         first + std::clamp<std::int64_t>(headers.back().numbers(), 0, room));
  }
}

void Metadata::check(const Communicator& group) const {
  const auto name = [&](std::size_t r) { return group.root_rank(static_cast<int>(r)); };
  for (std::size_t r = 1; r < headers.size(); ++r) {
    if (headers[r].configuration == headers[0].configuration) continue;
    throw SharedError(fmt::format(
        "balancer: the options of rank {} are not those of rank {} (hashes {:016x} and {:016x}); "
        "prepare with the same Balancer on every rank",
        name(r), name(0), headers[r].configuration, headers[0].configuration));
  }
  std::optional<std::size_t> with;
  std::optional<std::size_t> without;
  for (std::size_t r = 0; r < headers.size(); ++r) {
    throw_problem(name(r), headers[r]);
    if (headers[r].sequences == 0) continue;
    auto& found = headers[r].has_costs ? with : without;
    if (!found) found = r;
  }
  if (with && without) {
    throw SharedError(
        fmt::format("rank {} gives costs and rank {} does not; give them on all ranks or on none",
                    name(*with), name(*without)));
  }
}

bool Metadata::has_problem(const Communicator& group) const {
  try {
    check(group);
  } catch (const Error&) {
    return true;
  }
  return false;
}

std::int64_t Metadata::most_numbers() const {
  std::int64_t most = 0;
  for (const RankHeader& header : headers) most = std::max(most, header.numbers());
  return most;
}

}  // namespace knapformer
