// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/plan_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace knapformer::cli {
namespace {

// What the bags of one degree compute.
struct BagUse {
  std::int64_t bags = 0;
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
};

std::map<std::int64_t, BagUse> use_by_degree(const Plan& plan, const Topology& topology) {
  std::map<std::int64_t, BagUse> use;
  std::vector<std::int64_t> degree_of_rank;
  for (const Bag& bag : topology.bags()) {
    ++use[bag.degree].bags;
    degree_of_rank.insert(degree_of_rank.end(), bag.degree, bag.degree);
  }
  for (std::int64_t i = 0; i < plan.sequences(); ++i) {
    if (plan.chunks(i).empty()) continue;
    BagUse& bags = use[degree_of_rank[plan.chunks(i).front().rank]];
    ++bags.sequences;
    bags.tokens += plan.lengths()[i];
  }
  return use;
}

std::string min_mean_max(const std::vector<std::int64_t>& tokens, std::int64_t total) {
  const auto [least, most] = std::ranges::minmax(tokens);
  return fmt::format("{} / {:.0f} / {}", least,
                     static_cast<double>(total) / static_cast<double>(tokens.size()), most);
}

double percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string row(const std::string& what, const std::string& before, const std::string& after) {
  return fmt::format("{:<32}{:>28}{:>28}\n", what, before, after);
}

}  // namespace

std::string plan_json(const Plan& plan, const Topology& topology) {
  const PlanReport& report = plan.report();
  nlohmann::ordered_json out;
  auto& sequences = out["sequences"] = nlohmann::ordered_json::array();
  for (std::int64_t i = 0; i < plan.sequences(); ++i) {
    auto chunks = nlohmann::ordered_json::array();
    for (const Chunk& chunk : plan.chunks(i)) {
      chunks.push_back({{"rank", chunk.rank}, {"tokens", chunk.tokens}, {"heads", chunk.heads}});
    }
    sequences.push_back(
        {{"home", plan.homes()[i]}, {"length", plan.lengths()[i]}, {"chunks", std::move(chunks)}});
  }
  out["topology"] = topology.name();
  out["ranks"] = plan.ranks();
  out["heads"] = plan.heads();
  out["max_over_mean_before"] = report.max_over_mean_before;
  out["max_over_mean"] = report.max_over_mean;
  out["max_over_min_before"] = report.max_over_min_before;  // null when infinite
  out["max_over_min"] = report.max_over_min;
  out["lower_bound_gap"] = report.lower_bound_gap;
  out["total_tokens"] = report.total_tokens;
  out["moved_tokens"] = report.moved_tokens;
  out["ulysses_tokens"] = report.ulysses_tokens;
  out["tokens_by_rank_before"] = report.tokens_before;
  out["tokens_by_rank"] = report.tokens_after;
  out["attention_tokens_by_rank"] = report.attention_tokens;
  out["work_by_rank_before"] = report.work_before;
  out["work_by_rank"] = report.work_after;
  out["plan_hash"] = fmt::format("{:016x}", plan.hash());
  out["plan_seconds"] = report.plan_seconds;
  return out.dump() + '\n';
}

std::string plan_table(const Plan& plan, const Topology& topology) {
  const PlanReport& report = plan.report();
  std::string out =
      fmt::format("{} sequences, {} tokens, {} heads on {} ranks as {}\n\n", plan.sequences(),
                  report.total_tokens, plan.heads(), plan.ranks(), topology.name());
  out += row("", "before", "after");
  out += row("work: max/mean", fmt::format("{:.4f}", report.max_over_mean_before),
             fmt::format("{:.4f}", report.max_over_mean));
  out += row("work: max/min", fmt::format("{:.4g}", report.max_over_min_before),
             fmt::format("{:.4g}", report.max_over_min));
  out += row("work: max over the lower bound", "",
             fmt::format("{:.3f} %", 100 * report.lower_bound_gap));
  out += row("tokens a rank: min/mean/max", min_mean_max(report.tokens_before, report.total_tokens),
             min_mean_max(report.tokens_after, report.total_tokens));
  out += row("tokens moved", "",
             fmt::format("{} ({:.1f} %)", report.moved_tokens,
                         percent(report.moved_tokens, report.total_tokens)));
  for (const auto& [degree, use] : use_by_degree(plan, topology)) {
    out += row(fmt::format("{} bag{} of {}: sequences, tokens", use.bags, use.bags == 1 ? "" : "s",
                           degree),
               "",
               fmt::format("{}, {} ({:.1f} %)", use.sequences, use.tokens,
                           percent(use.tokens, report.total_tokens)));
  }
  out += row("time to plan", "", fmt::format("{:.3f} ms", 1e3 * report.plan_seconds));
  return out;
}

}  // namespace knapformer::cli
