// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/tune_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <knapformer/plan/error.hpp>
#include <memory>
#include <optional>

#include "cli/data_options.hpp"
#include "cli/limit_options.hpp"
#include "cli/machine_options.hpp"
#include "cli/model_options.hpp"
#include "cli/progress.hpp"
#include "cli/text_file.hpp"
#include "cli/tune_report.hpp"

namespace knapformer::cli {
namespace {

struct Options {
  DataOptions data;
  MachineOptions machine;
  std::optional<std::int64_t> ranks;
  std::string topologies;
  std::int64_t steps = 50;
  std::int64_t d_model = 3072;
  std::int64_t heads = 24;
  double gamma = 0.5;
  PlanLimits limits;
  std::string json;
  std::string program;
};

std::int64_t ranks_of(const Options& options) {
  constexpr std::int64_t kOneNode = 8;
  if (options.ranks) return *options.ranks;
  if (options.data.data_codes.empty()) return kOneNode;
  return ranks_of_codes(options.data.data_codes, options.data.rates);
}

std::vector<Placement> parse_candidates(std::string_view list) {
  std::vector<Placement> out;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const Placement candidate = Placement::parse(list.substr(begin, end - begin));
    for (const Placement& other : out) {
      if (other.name() == candidate.name()) {
        throw Error("--topologies: " + candidate.name() + " is given twice");
      }
    }
    out.push_back(candidate);
    begin = end + 1;
  }
  return out;
}

TunerOptions tuner_options(const Options& options) {
  TunerOptions out{.cost = CostModel::transformer(options.d_model, options.gamma),
                   .heads = options.heads,
                   .ranks = ranks_of(options),
                   .steps = options.steps,
                   .machine = machine_of(options.machine),
                   .max_tokens_per_rank = options.limits.max_tokens_per_rank,
                   .max_attention_tokens_per_rank = options.limits.max_attention_tokens_per_rank,
                   .budget = options.limits.budget};
  out.machine.check(out.ranks);
  out.candidates = options.topologies.empty()
                       ? default_candidates(out.ranks, out.heads, out.machine)
                       : parse_candidates(options.topologies);
  return out;
}

std::string shell_word(const std::string& text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_-+=.,:/@%", c) != nullptr;
  };
  if (std::ranges::all_of(text, plain)) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + '\'';
}

/// The options that were given and that `simulate` has too, as they were given.
std::string options_for(const CLI::App& simulate, const CLI::App& given) {
  constexpr std::array<std::string_view, 4> kOfTune = {"--steps", "--json", "--d-model", "--heads"};
  std::string out;
  for (const CLI::Option* option : given.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || std::ranges::find(kOfTune, name) != kOfTune.end()) continue;
    if (!simulate.get_option_no_throw(name)) continue;
    if (option->results().back() == "-") continue;  // the standard input, which ranks cannot share
    out += fmt::format(" {} {}", name, shell_word(option->results().back()));
  }
  for (const CLI::App* group : given.get_subcommands([](const CLI::App*) { return true; })) {
    out += options_for(simulate, *group);
  }
  return out;
}

/// What starts `simulate` on the same data, but for the topology. Its model is small, unless one
/// was given here, of which width and heads must fit each other.
std::string simulate_command(const CLI::App& tune, const Options& options, std::int64_t ranks) {
  const CLI::App& simulate = *tune.get_parent()->get_subcommand("simulate");
  std::string out = fmt::format("mpirun -n {} {} simulate{}", ranks, shell_word(options.program),
                                options_for(simulate, tune));
  if (tune.count("--d-model") + tune.count("--heads") > 0 &&
      options.d_model % (2 * options.heads) == 0) {
    out += fmt::format(" --d-model {} --heads {}", options.d_model, options.heads);
  }
  return out;
}

void run(const CLI::App& command, const Options& options) {
  require_data(options.data);
  const TunerOptions tuner = tuner_options(options);
  const std::unique_ptr<DataSource> data = open_data(options.data, tuner.ranks);
  if (!options.json.empty()) require_writable(options.json);
  TunerResult result;
  {
    Progress progress(tuner.steps, true);
    result = tune(*data, tuner, [&] { progress.advance(); });
  }
  const std::string description = data->describe();
  const TuneReport report{.data = description,
                          .seed = options.data.seed,
                          .gamma = options.gamma,
                          .options = tuner,
                          .result = result,
                          .recommendation = recommend(result.rows),
                          .simulate = simulate_command(command, options, tuner.ranks)};
  if (!options.json.empty()) write_text(options.json, tune_json(report));
  if (options.json != "-") write_text("-", tune_table(report));
}

void add_comparison_options(CLI::App& tune, Options& options) {
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 24;
  auto* comparison = tune.add_option_group("Comparison");
  comparison
      ->add_option("--ranks", options.ranks,
                   "of the balancing group (default: those of the data codes; 8 for a manifest)")
      ->check(CLI::Range(std::int64_t{1}, Topology::kAnyDegree));
  comparison
      ->add_option(
          "--topologies", options.topologies,
          "what to compare, e.g. home,elastic,elastic8,g1n16+g4n4, where home is no "
          "balancing (default: home, elastic ones, and all bags of equal size up to a node)")
      ->type_name("LIST");
  comparison->add_option("--steps", options.steps, "steps to plan")
      ->check(CLI::Range(std::int64_t{1}, kMostSteps))
      ->capture_default_str();
  comparison
      ->add_option("--json", options.json,
                   "write the figures to FILE, or instead of the table to - (standard output); "
                   "docs/json.md lists the keys")
      ->type_name("FILE");
}

}  // namespace

Command add_tune_command(CLI::App& app, const std::string& program) {
  auto options = std::make_shared<Options>();
  options->program = program;
  CLI::App* tune = app.add_subcommand(
      "tune", "Compare topologies on many steps of data, without running anything, and recommend");
  add_data_options(*tune, options->data);
  add_comparison_options(*tune, *options);
  add_limit_options(*tune, options->limits);
  add_planned_model(*tune->add_option_group("Model"), options->d_model, options->heads,
                    options->gamma);
  add_machine_options(*tune, options->machine);
  return {tune, false, [tune, options] { run(*tune, *options); }};
}

}  // namespace knapformer::cli
