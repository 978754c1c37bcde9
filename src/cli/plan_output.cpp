// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/plan_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/machine_options.hpp"
#include "cli/quantities.hpp"
#include "plan/message.hpp"

namespace knapformer::cli {
namespace {

// What the bags of one degree compute.
struct BagUse {
  std::int64_t bags = 0;  // of a fixed topology
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
    const auto chunks = plan.chunks(i);
    if (chunks.empty()) continue;
    BagUse& bags =
        use[topology.is_elastic() ? std::ssize(chunks) : degree_of_rank[chunks.front().rank]];
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

std::string percent_of(double part, std::int64_t whole) {
  return fmt::format("{:.1f} %", whole == 0 ? 0 : 100 * part / static_cast<double>(whole));
}

std::string with_share(std::int64_t part, std::int64_t whole) {
  return fmt::format("{} ({})", part, percent_of(static_cast<double>(part), whole));
}

std::string row(const std::string& what, const std::string& before, const std::string& after) {
  return fmt::format("{:<38}{:>22}{:>22}\n", what, before, after);
}

/// How far the largest load is above what was proved to be the least possible.
std::string gap(double bound, double gap) {
  return bound > 0 ? fmt::format("{:.3f} %", 100 * gap) : "unknown";
}

std::string time_rows(const PlanReport& report) {
  const double ideal = report.ideal_seconds;
  const auto above = [&](double seconds) {
    return fmt::format("{:.2f} %", ideal > 0 ? 100 * (seconds / ideal - 1) : 0);
  };
  std::string out =
      row("predicted step", duration(report.step_seconds_before), duration(report.step_seconds));
  out += row(fmt::format("  above the ideal of {}", duration(ideal)),
             above(report.step_seconds_before), above(report.step_seconds));
  return out;
}

std::string load_rows(const PlanReport& report, const Topology& topology, const Machine& machine) {
  const std::string load = machine.speeds.empty() ? "work" : "work over speed";
  std::string out = row(load + ": max/mean", fmt::format("{:.4f}", report.max_over_mean_before),
                        fmt::format("{:.4f}", report.max_over_mean));
  out += row(load + ": max/min", fmt::format("{:.4g}", report.max_over_min_before),
             fmt::format("{:.4g}", report.max_over_min));
  if (!topology.is_elastic() || report.lower_bound != report.elastic_lower_bound) {
    out += row(fmt::format("  above the bound for {}", topology.name()), "",
               gap(report.lower_bound, report.lower_bound_gap));
  }
  out += row("  above the bound for any bags", "",
             gap(report.elastic_lower_bound, report.elastic_lower_bound_gap));
  return out;
}

std::string traffic_rows(const PlanReport& report) {
  const std::int64_t total = report.total_tokens;
  std::string out = row("tokens moved", "", with_share(report.moved_tokens, total));
  out += row("  to another node", "", with_share(report.crossed_tokens, total));
  out += row("Ulysses: q, k, v, o that travel", "", percent_of(report.ulysses_tokens, total));
  out += row("  per layer and forward pass", "", quantity(report.ulysses_bytes_per_layer, "B"));
  return out;
}

std::string bag_rows(const Plan& plan, const Topology& topology) {
  std::string out;
  for (const auto& [degree, use] : use_by_degree(plan, topology)) {
    const std::string bags = topology.is_elastic()
                                 ? fmt::format("bags of {}", degree)
                                 : fmt::format("{} of {}", plural(use.bags, "bag"), degree);
    out += row(
        bags + ": sequences, tokens", "",
        fmt::format("{}, {}", use.sequences, with_share(use.tokens, plan.report().total_tokens)));
  }
  return out;
}

}  // namespace

std::string plan_json(const Plan& plan, const Topology& topology, const Machine& machine) {
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
  out["lower_bound"] = report.lower_bound;
  out["lower_bound_gap"] = report.lower_bound_gap;
  out["elastic_lower_bound"] = report.elastic_lower_bound;
  out["elastic_lower_bound_gap"] = report.elastic_lower_bound_gap;
  out["step_seconds_before"] = report.step_seconds_before;
  out["step_seconds"] = report.step_seconds;
  out["ideal_seconds"] = report.ideal_seconds;
  out["step_over_ideal"] = report.step_over_ideal;
  out["total_tokens"] = report.total_tokens;
  out["moved_tokens"] = report.moved_tokens;
  out["crossed_tokens"] = report.crossed_tokens;
  out["ulysses_tokens"] = report.ulysses_tokens;
  out["ulysses_bytes_per_layer"] = report.ulysses_bytes_per_layer;
  out["tokens_by_rank_before"] = report.tokens_before;
  out["tokens_by_rank"] = report.tokens_after;
  out["attention_tokens_by_rank"] = report.attention_tokens;
  out["work_by_rank_before"] = report.work_before;
  out["work_by_rank"] = report.work_after;
  out["seconds_by_rank"] = report.seconds;
  out["machine"] = machine_json(machine);
  out["plan_hash"] = fmt::format("{:016x}", plan.hash());
  out["plan_seconds"] = report.plan_seconds;
  return out.dump() + '\n';
}

std::string plan_table(const Plan& plan, const Topology& topology, const Machine& machine) {
  const PlanReport& report = plan.report();
  std::string out = fmt::format("{}, {}, {} on {} as {}\n", plural(plan.sequences(), "sequence"),
                                plural(report.total_tokens, "token"), plural(plan.heads(), "head"),
                                plural(plan.ranks(), "rank"), topology.name());
  out += fmt::format("machine  {}\nmodel    {}, {} an element\n\n", describe(machine),
                     plural(machine.layers, "layer"), plural(machine.bytes_per_element, "byte"));
  out += row("", "before", "after");
  out += time_rows(report);
  out += load_rows(report, topology, machine);
  out += row("tokens a rank: min/mean/max", min_mean_max(report.tokens_before, report.total_tokens),
             min_mean_max(report.tokens_after, report.total_tokens));
  out += traffic_rows(report);
  out += bag_rows(plan, topology);
  out += row("time to plan", "", duration(report.plan_seconds));
  return out;
}

}  // namespace knapformer::cli
