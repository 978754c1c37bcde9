// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/experiment_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <knapformer/plan/error.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>

#include "cli/experiment_report.hpp"
#include "cli/machine_options.hpp"
#include "cli/model_options.hpp"
#include "cli/progress.hpp"
#include "cli/run_options.hpp"
#include "cli/text_file.hpp"

namespace knapformer::cli {
namespace {

constexpr double kFullGamma = 0.5;

struct Options {
  std::string workloads = "lowres,mixres,joint";
  ModelOptions model{.layers = 3, .d_model = 128, .heads = 8, .learning_rate = 0.1};
  std::optional<double> gamma;
  MachineOptions machine;
  std::int64_t steps = 5;
  std::int64_t warmup = 1;
  std::uint64_t seed = 0;
  RunOptions run;
  std::string json;
};

std::vector<const PaperWorkload*> parse_workloads(std::string_view list) {
  std::vector<const PaperWorkload*> out;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view name = list.substr(begin, end - begin);
    const auto found = std::ranges::find(kPaperWorkloads, name, &PaperWorkload::name);
    if (found == kPaperWorkloads.end()) {
      throw Error(
          fmt::format("--workloads: there is no '{}'; there are lowres, mixres and joint", name));
    }
    if (std::ranges::find(out, &*found) != out.end()) {
      throw Error(fmt::format("--workloads: {} is given twice", name));
    }
    out.push_back(&*found);
    begin = end + 1;
  }
  return out;
}

/// FLUX on the GPUs of the paper, as `knapformer tune` has it by default.
TunerOptions full_size(const Options& options, const std::vector<ExperimentCell>& cells) {
  const MMDiTConfig flux = mmdit_preset("flux");
  TunerOptions full{.cost = CostModel::transformer(flux.d_model, kFullGamma),
                    .heads = flux.heads,
                    .ranks = kPaperRanks,
                    .steps = options.warmup + options.steps};
  for (const ExperimentCell& cell : cells) full.candidates.push_back(cell.full);
  return full;
}

/// Rounding explains less than a tenth of it, for it averages out over the tokens of a loss. A
/// gradient that misses a part soon makes more.
template <class T>
constexpr double loss_tolerance() {
  if constexpr (std::is_same_v<T, double>) return 1e-13;
  return std::is_same_v<T, float> ? 1e-8 : 1e-4;
}

/// Everything about a run that is known before it.
struct Setup {
  std::vector<const PaperWorkload*> workloads;
  std::vector<ExperimentCell> cells;
  std::vector<Placement> placements;  ///< of the cells that there are here
  std::vector<std::unique_ptr<DataSource>> data;
  double scale = 1;
  SimulationOptions simulation = {.topology = Topology::elastic()};  // of groups that stay home
  Calibration calibration = {};
};

template <class T>
Machine machine_for(const Options& options, std::int64_t ranks, double flops) {
  Machine machine = machine_of(options.machine, {.flops = flops});
  machine.layers = options.model.layers;
  machine.bytes_per_element = sizeof(T);
  machine.check(ranks);
  return machine;
}

template <class T>
Setup set_up(const Communicator& world, const Device& exec, const Options& options) {
  constexpr std::int64_t kLongestMeasured = 2048;
  Setup setup;
  std::int64_t longest = 0;
  settle(world, [&] {
    const MMDiTConfig model = mmdit_of(options.model);
    check(model);
    setup.workloads = parse_workloads(options.workloads);
    setup.cells = experiment_cells(world.size());
    for (const ExperimentCell& cell : setup.cells) {
      if (cell.here) setup.placements.push_back(*cell.here);
    }
    const auto full_width = static_cast<double>(mmdit_preset("flux").d_model);
    setup.scale = static_cast<double>(model.d_model) / full_width;
    if (setup.scale > 1) {
      throw Error(fmt::format("--d-model is {}; at full size it is {:.0f}, give at most that",
                              model.d_model, full_width));
    }
    for (const PaperWorkload* workload : setup.workloads) {
      setup.data.push_back(make_paper_source(*workload, world.size(), options.seed, setup.scale));
      for (std::int64_t rank = 0; rank < world.size(); ++rank) {
        for (const std::int64_t n : setup.data.back()->lengths(0, rank)) {
          longest = std::max(longest, n);
        }
      }
    }
    setup.simulation.model = model;
    setup.simulation.steps = options.steps;
    setup.simulation.warmup = options.warmup;
    setup.simulation.seed = options.seed;
    setup.simulation.learning_rate = options.model.learning_rate;
    CostModel::transformer(model.d_model, options.gamma.value_or(0));
    machine_for<T>(options, world.size(), Machine().flops);  // before measuring takes its time
    if (!options.json.empty() && world.rank() == 0) require_writable(options.json);
  });
  if (!options.gamma || !options.run.peak_gflops) {
    setup.calibration =
        calibrate<T>(world, exec, setup.simulation.model, std::min(longest, kLongestMeasured),
                     choose_clock(world, exec));
  }
  if (options.gamma) setup.calibration.gamma = *options.gamma;
  if (options.run.peak_gflops) setup.calibration.gemm_flops = *options.run.peak_gflops * 1e9;
  setup.simulation.gamma = setup.calibration.gamma;
  settle(world, [&] {
    setup.simulation.machine = machine_for<T>(options, world.size(), setup.calibration.gemm_flops);
  });
  return setup;
}

WorkloadResult result_of(const PaperWorkload& workload, Comparison measured,
                         const TunerOptions& full, std::uint64_t seed) {
  WorkloadResult result;
  result.workload = &workload;
  result.measured = std::move(measured);
  const auto& steps = result.measured.steps;
  for (const auto& of_cell : steps) {
    result.loss_differences.push_back(loss_difference(steps.front(), of_cell));
  }
  for (const TraceStep& step : steps.front()) {
    result.tokens += static_cast<double>(step.groups.front().total_tokens) /
                     static_cast<double>(steps.front().size());
    for (const auto& of_rank : step.lengths) {
      for (const std::int64_t n : of_rank) result.longest = std::max(result.longest, n);
    }
  }
  result.predicted = tune(*make_paper_source(workload, kPaperRanks, seed, 1), full);
  return result;
}

/// Throws Error unless all cells computed the same.
void check_losses(const std::vector<WorkloadResult>& results, double tolerance) {
  for (const WorkloadResult& result : results) {
    const double difference = largest_difference(result.loss_differences);
    if (difference <= tolerance) continue;
    throw Error(
        std::isnan(difference)
            ? fmt::format("{}: the loss is not finite in some step; a lower --learning-rate may "
                          "help",
                          result.workload->name)
            : fmt::format("{}: the losses of balanced steps differ by {:.1e} from those without "
                          "balancing, more than rounding explains ({:.0e})",
                          result.workload->name, difference, tolerance));
  }
}

template <class T>
void run_paper(const Communicator& world, const Options& options) {
  const Device exec;
  const Setup setup = set_up<T>(world, exec, options);
  note_lone_rank(world, "experiment paper");
  const TunerOptions full = full_size(options, setup.cells);
  std::vector<WorkloadResult> results;
  {
    const auto cells = std::ssize(setup.placements), workloads = std::ssize(setup.workloads);
    Progress progress(workloads * cells * options.steps, world.rank() == 0);
    for (std::size_t w = 0; w < setup.workloads.size(); ++w) {
      Comparison measured =
          compare<T>(world, exec, *setup.data[w], setup.simulation, setup.placements,
                     [&](const TraceStep&) { progress.advance(); });
      results.push_back(result_of(*setup.workloads[w], std::move(measured), full, options.seed));
    }
  }
  settle(world, [&] {
    if (world.rank() != 0) return;
    const ExperimentReport report{.ranks = world.size(),
                                  .threads = exec.concurrency(),
                                  .dtype = options.model.dtype,
                                  .seed = options.seed,
                                  .options = setup.simulation,
                                  .calibration = setup.calibration,
                                  .gamma_measured = !options.gamma,
                                  .peak_measured = !options.run.peak_gflops,
                                  .scale = setup.scale,
                                  .cells = setup.cells,
                                  .full = full,
                                  .full_gamma = kFullGamma,
                                  .tolerance = loss_tolerance<T>(),
                                  .results = results};
    if (!options.json.empty()) write_text(options.json, experiment_json(report));
    if (options.json != "-") write_text("-", experiment_table(report));
  });
  settle(world, [&] { check_losses(results, loss_tolerance<T>()); });
}

void run(const Options& options) {
  if (options.machine.file == "-") {
    throw Error("--machine cannot be the standard input, which one process alone can read");
  }
  check(options.model);
  check(options.run);
  on_world(options.run, options.model.dtype, [&](const Communicator& world, auto element) {
    run_paper<decltype(element)>(world, options);
  });
}

void add_paper_options(CLI::App& paper, Options& options) {
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 24;
  auto* data = paper.add_option_group("Data");
  data->add_option("--workloads", options.workloads,
                   "of lowres, mixres (images) and joint (images and videos)")
      ->type_name("LIST")
      ->capture_default_str();
  data->add_option("--seed", options.seed, "of everything random")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
  auto* model = paper.add_option_group(
      "Model",
      "an MMDiT; at full size --d-model 3072 --heads 24 --layers 57. Lengths are scaled "
      "with --d-model");
  add_model_sizes(*model, options.model, "hidden width of the MLPs (default: 4 times the width)");
  model->add_option("--gamma", options.gamma,
                    "weight of attention in the cost 6 d L + gamma L^2 (default: measured)");
  add_hardware_options(paper, options.machine, "measured");
  auto* run = paper.add_option_group("Run");
  run->add_option("--steps", options.steps, "measured steps of each cell")
      ->check(CLI::Range(std::int64_t{1}, kMostSteps))
      ->capture_default_str();
  run->add_option("--warmup", options.warmup, "steps before those")
      ->check(CLI::Range(std::int64_t{0}, kMostSteps))
      ->capture_default_str();
  add_run_options(*run, options.run);
  run->add_option("--json", options.json,
                  "write the figures to FILE, or instead of the table to - (standard output); "
                  "docs/json.md lists the keys")
      ->type_name("FILE");
}

}  // namespace

std::vector<Command> add_experiment_commands(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* experiment = app.add_subcommand("experiment", "Repeat a published experiment");
  experiment->require_subcommand(0, 1);
  CLI::App* paper = experiment->add_subcommand(
      "paper",
      "The workloads and topologies of arXiv 2508.06001 on the ranks there are (under mpirun), and "
      "what is predicted for its 32 GPUs");
  add_paper_options(*paper, *options);
  paper->footer("Threads of a rank: OMP_NUM_THREADS.");
  return {{paper, true, [options] { run(*options); }},
          {experiment, false,
           [] { throw Error("an experiment is missing (see knapformer experiment --help)"); }}};
}

}  // namespace knapformer::cli
