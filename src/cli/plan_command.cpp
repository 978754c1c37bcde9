// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/plan_command.hpp"

#include <CLI/CLI.hpp>
#include <knapformer/plan/error.hpp>
#include <knapformer/plan/planner.hpp>
#include <limits>
#include <memory>
#include <optional>

#include "cli/limit_options.hpp"
#include "cli/machine_options.hpp"
#include "cli/model_options.hpp"
#include "cli/plan_output.hpp"
#include "cli/rank_table.hpp"
#include "cli/text_file.hpp"
#include "plan/message.hpp"

namespace knapformer::cli {
namespace {

struct Options {
  std::string lengths;
  std::string topology = "elastic";
  std::optional<std::string> costs;
  std::optional<std::string> json;
  double gamma = 0.5;
  std::int64_t d_model = 3072;
  std::int64_t heads = 24;
  MachineOptions machine;
  PlanLimits limits;
};

RankTable read_lengths(const Options& options, const Topology& topology) {
  const RankTable lengths =
      read_rank_table(options.lengths, "lengths_by_rank", CostModel::kMaxLength);
  if (lengths.ranks() == 0)
    throw Error(lengths.source + " has lengths for 0 ranks; give those of at least one");
  if (!topology.is_elastic() && lengths.ranks() != topology.ranks()) {
    throw Error(lengths.source + " has lengths for " + plural(lengths.ranks(), "rank") +
                ", but topology " + topology.name() + " is for " +
                std::to_string(topology.ranks()));
  }
  return lengths;
}

RankTable read_costs(const Options& options, const RankTable& lengths) {
  if (!options.costs) return {};
  RankTable costs =
      read_rank_table(*options.costs, "costs_by_rank", std::numeric_limits<std::int64_t>::max());
  if (costs.offsets != lengths.offsets) {
    throw Error(costs.source + " must have one cost for every length in " + lengths.source +
                ", rank by rank; it has " + std::to_string(costs.values.size()) + " on " +
                plural(costs.ranks(), "rank") + " for " + std::to_string(lengths.values.size()) +
                " on " + std::to_string(lengths.ranks()));
  }
  return costs;
}

void run(const Options& options) {
  if ((options.lengths == "-") + (options.costs == "-") + (options.machine.file == "-") > 1) {
    throw Error("only one of --lengths, --costs and --machine can be read from the standard input");
  }
  const Topology topology = Topology::parse(options.topology);
  const CostModel cost = CostModel::transformer(options.d_model, options.gamma);
  const RankTable lengths = read_lengths(options, topology);
  const RankTable costs = read_costs(options, lengths);
  const Machine machine = machine_of(options.machine);
  const Plan plan =
      make_plan({.topology = topology,
                 .cost = cost,
                 .heads = options.heads,
                 .lengths = lengths.values,
                 .offsets = lengths.offsets,
                 .costs = costs.values,
                 .machine = machine,
                 .max_tokens_per_rank = options.limits.max_tokens_per_rank,
                 .max_attention_tokens_per_rank = options.limits.max_attention_tokens_per_rank,
                 .budget = options.limits.budget});
  if (options.json) {
    write_text(*options.json, plan_json(plan, topology, machine));
  } else {
    write_text("-", plan_table(plan, topology, machine));
  }
}

}  // namespace

Command add_plan_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* plan =
      app.add_subcommand("plan", "Balance given sequence lengths, without running anything");
  plan->add_option("--lengths", options->lengths,
                   "JSON {\"lengths_by_rank\": [[...], ...]}; - for standard input")
      ->type_name("FILE")
      ->required();
  plan->add_option(
          "--topology", options->topology,
          "compute bags, e.g. g4n8 or g1n16+g4n4; elastic: one for every sequence, elastic4: "
          "of at most 4 ranks")
      ->capture_default_str();
  add_planned_model(*plan, options->d_model, options->heads, options->gamma);
  plan->add_option(
          "--costs", options->costs,
          "JSON {\"costs_by_rank\": [[...], ...]}: whole numbers that replace the cost model")
      ->type_name("FILE");
  add_limit_options(*plan, options->limits);
  add_machine_options(*plan, options->machine);
  plan->add_option("--json", options->json,
                   "write the plan to FILE, or - for standard output; without it a table. "
                   "docs/json.md lists the keys")
      ->type_name("FILE");
  return {plan, false, [options] { run(*options); }};
}

}  // namespace knapformer::cli
