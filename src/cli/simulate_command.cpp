// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/simulate_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <knapformer/plan/error.hpp>
#include <knapformer/trace/trace_writer.hpp>
#include <memory>
#include <optional>
#include <variant>

#include "cli/data_options.hpp"
#include "cli/limit_options.hpp"
#include "cli/machine_options.hpp"
#include "cli/memory_warning.hpp"
#include "cli/model_options.hpp"
#include "cli/progress.hpp"
#include "cli/run_options.hpp"
#include "cli/simulate_report.hpp"
#include "cli/slow_ranks.hpp"
#include "cli/text_file.hpp"
#include "plan/message.hpp"

namespace knapformer::cli {
namespace {

struct Options {
  DataOptions data;

  std::string topology;
  std::int64_t group_size = 0;
  std::optional<double> gamma;
  MachineOptions machine;
  PlanLimits limits;
  bool adapt_to_speed = false;

  std::string kind = "transformer";
  ModelOptions model;
  std::int64_t kv_heads = 0;
  bool causal = false;
  std::int64_t micro_batches = 1;
  LossMean loss_mean = LossMean::kTokens;
  std::int64_t steps = 20;
  std::int64_t warmup = 2;
  std::vector<SlowRank> slow_ranks;
  RunOptions run;

  std::string json;
  std::string trace;
  std::string command_line;
};

/// Into groups of how many ranks the world is split, with a topology for each of them.
std::int64_t choose_group_size(const Options& options, const Topology& topology,
                               std::int64_t world) {
  std::int64_t group = options.group_size;
  if (group == 0) group = topology.is_elastic() ? world : topology.ranks();
  if (!topology.is_elastic() && topology.ranks() != group) {
    throw Error(fmt::format("topology {} has {}, but --group-size is {}", topology.name(),
                            plural(topology.ranks(), "rank"), group));
  }
  if (group > world || world % group != 0) {
    throw Error(
        fmt::format("{} cannot be split into balancing groups of {} (topology {}): start a "
                    "multiple of {} ranks, or choose another --topology or --group-size",
                    plural(world, "rank"), group, topology.name(), group));
  }
  return group;
}

Topology choose_topology(const Options& options, std::int64_t world) {
  if (!options.topology.empty()) return Topology::parse(options.topology);
  return Topology::singles(options.group_size == 0 ? world : options.group_size);
}

/// The model that runs decides what it is, whatever a file says.
template <class T>
Machine machine_for(const Options& options, std::int64_t ranks, double measured_flops) {
  Machine machine = machine_of(options.machine, {.flops = measured_flops});
  machine.layers = options.model.layers;
  machine.bytes_per_element = sizeof(T);
  machine.check(ranks);
  return machine;
}

ModelConfig model_of(const Options& options) {
  const ModelOptions& sizes = options.model;
  if (options.kind == "mmdit") return mmdit_of(sizes);
  TransformerConfig model{.layers = sizes.layers,
                          .d_model = sizes.d_model,
                          .heads = sizes.heads,
                          .kv_heads = options.kv_heads,
                          .d_ffn = sizes.d_ffn,
                          .causal = options.causal,
                          .checkpoint = sizes.checkpoint};
  if (model.d_ffn == 0) model.d_ffn = (8 * model.d_model / 3 + 15) / 16 * 16;
  return model;
}

/// In the first steps, which say enough, however many there are.
std::int64_t longest_sequence(const DataSource& data, const Options& options, std::int64_t ranks) {
  constexpr std::int64_t kMostSteps = 100;
  std::int64_t longest = 0;
  for (std::int64_t step = 0; step < std::min(options.warmup + options.steps, kMostSteps); ++step) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      for (const std::int64_t n : data.lengths(step, rank)) longest = std::max(longest, n);
    }
  }
  return longest;
}

/// What the ranks agree on before any work is done.
struct Run {
  SimulationOptions simulation;
  TraceHeader header = {};
  Calibration calibration = {};
  std::unique_ptr<DataSource> data = {};
  std::optional<TraceWriter> trace = {};  ///< on rank 0, where one is wanted
};

template <class T>
Run prepare(const Communicator& world, const Device& exec, const Options& options) {
  constexpr std::int64_t kLongestMeasured = 2048;  // longer ones take long and say the same
  Run run{.simulation = {.topology = Topology::singles(world.size())}};
  std::int64_t longest = 0;
  settle(world, [&] {
    const Topology topology = choose_topology(options, world.size());
    run.simulation = {.model = model_of(options),
                      .topology = topology,
                      .group_size = choose_group_size(options, topology, world.size()),
                      .gamma = options.gamma.value_or(0),
                      .max_tokens_per_rank = options.limits.max_tokens_per_rank,
                      .max_attention_tokens_per_rank = options.limits.max_attention_tokens_per_rank,
                      .plan_budget = options.limits.budget,
                      .adapt_to_speed = options.adapt_to_speed,
                      .steps = options.steps,
                      .warmup = options.warmup,
                      .seed = options.data.seed,
                      .learning_rate = options.model.learning_rate,
                      .micro_batches = options.micro_batches,
                      .loss_mean = options.loss_mean};
    run.simulation.slowdowns = slowdowns(options.slow_ranks, world.size());
    CostModel::transformer(options.model.d_model, run.simulation.gamma);
    run.data = open_data(options.data, world.size());
    longest = longest_sequence(*run.data, options, world.size());
    std::visit([](const auto& model) { check(model); }, run.simulation.model);
    machine_for<T>(options, world.size(), Machine().flops);  // before measuring takes its time
    if (!options.json.empty() && world.rank() == 0) require_writable(options.json);
  });

  warn_of_memory(world, exec, *run.data, run.simulation, sizeof(T));
  if (!options.gamma || !options.run.peak_gflops) {
    run.calibration =
        calibrate<T>(world, exec, run.simulation.model, std::min(longest, kLongestMeasured));
  }
  if (options.gamma) run.calibration.gamma = *options.gamma;
  if (options.run.peak_gflops) run.calibration.gemm_flops = *options.run.peak_gflops * 1e9;
  run.simulation.gamma = run.calibration.gamma;
  settle(world, [&] {
    run.simulation.machine = machine_for<T>(options, world.size(), run.calibration.gemm_flops);
  });

  run.header = {.ranks = world.size(),
                .group_size = run.simulation.group_size,
                .topology = run.simulation.topology.name(),
                .heads = options.model.heads,
                .kv_heads = shape_of(run.simulation.model).plan_heads,
                .d_model = options.model.d_model,
                .layers = options.model.layers,
                .gamma = run.simulation.gamma,
                .dtype = options.model.dtype,
                .threads = exec.concurrency(),
                .micro_batches = options.micro_batches,
                .loss_mean = std::string(name_of(options.loss_mean)),
                .seed = options.data.seed,
                .data = run.data->describe(),
                .command_line = options.command_line};
  settle(world, [&] {
    if (world.rank() == 0 && !options.trace.empty()) run.trace.emplace(options.trace, run.header);
  });
  return run;
}

template <class T>
void simulate_and_report(const Communicator& world, const Options& options) {
  const Device exec;
  Run run = prepare<T>(world, exec, options);
  note_lone_rank(world, "simulate");
  Simulation simulation;
  {
    Progress progress(2 * options.steps, world.rank() == 0);
    simulation = simulate<T>(world, exec, *run.data, run.simulation, [&](const TraceStep& step) {
      settle(world, [&] {
        if (run.trace) run.trace->append(step);
      });
      progress.advance();
    });
  }
  settle(world, [&] {
    if (run.trace) run.trace->close();
    if (world.rank() != 0) return;
    const SimulationReport report{.run = run.header,
                                  .options = run.simulation,
                                  .calibration = run.calibration,
                                  .gamma_measured = !options.gamma,
                                  .peak_measured = !options.run.peak_gflops,
                                  .simulation = simulation};
    if (!options.json.empty()) write_text(options.json, to_json(report).dump(2) + '\n');
    if (options.json != "-") write_text("-", format_table(report));
  });
}

void check(const Options& options) {
  require_data(options.data);
  if (options.machine.file == "-") {
    throw Error("--machine cannot be the standard input, which one process alone can read");
  }
  if (!options.json.empty() && options.json == options.trace) {
    throw Error("--json and --trace cannot both be written to " + options.json);
  }
  if (options.kind == "mmdit" && (options.causal || options.kv_heads > 0)) {
    throw Error("--causal and --kv-heads are for --model transformer only");
  }
  check(options.model);
  check(options.run);
}

void run(const Options& options) {
  check(options);
  on_world(options.run, options.model.dtype, [&](const Communicator& world, auto element) {
    simulate_and_report<decltype(element)>(world, options);
  });
}

void add_balancing_options(CLI::App& simulate, Options& options) {
  auto* balancing = simulate.add_option_group("Balancing");
  balancing->add_option(
      "--topology", options.topology,
      "compute bags of each balancing group, e.g. g1n4+g4n1; elastic: one for every sequence, "
      "elastic4: of at most 4 ranks (default: bags of one rank)");
  balancing
      ->add_option("--group-size", options.group_size,
                   "ranks of a balancing group (default: those of a fixed topology, or all)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  balancing->add_option("--gamma", options.gamma,
                        "weight of attention in the cost 6 d L + gamma L^2 (default: measured)");
  balancing->add_flag("--adapt-to-speed", options.adapt_to_speed,
                      "plan for the speeds that the ranks show, from --rank-speeds on");
}

void add_model_options(CLI::App& simulate, Options& options) {
  auto* model = simulate.add_option_group("Model");
  model
      ->add_option("--model", options.kind,
                   "transformer, or mmdit: text and image tokens as in FLUX, a third of the layers "
                   "with two streams; its loss is over image tokens")
      ->check(CLI::IsMember({"transformer", "mmdit"}))
      ->capture_default_str();
  add_model_sizes(*model, options.model,
                  "hidden width (default: of SwiGLU 8/3 of the width, of an MMDiT's MLPs 4 times)");
  model
      ->add_option("--kv-heads", options.kv_heads,
                   "heads of keys and values, each shared by as many of queries; no bag has more "
                   "ranks (default: as many as heads)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  model->add_flag("--causal", options.causal, "causal attention");
  model
      ->add_option("--micro-batches", options.micro_batches,
                   "that each step's batch is cut into, one after another; their gradients add up")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  model
      ->add_option_function<std::string>(
          "--normalize",
          [&options](const std::string& by) {
            options.loss_mean = by == "samples" ? LossMean::kSamples : LossMean::kTokens;
          },
          "the loss is a mean over tokens or samples of the step")
      ->check(CLI::IsMember({"tokens", "samples"}))
      ->default_str("tokens");
}

void add_measurement_options(CLI::App& simulate, Options& options) {
  auto* run = simulate.add_option_group("Run");
  run->add_option("--steps", options.steps, "measured steps of each placement")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
  run->add_option("--warmup", options.warmup, "steps before those")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->capture_default_str();
  run->add_option_function<std::string>(
         "--slow-ranks",
         [&options](const std::string& list) { options.slow_ranks = parse_slow_ranks(list); },
         "make ranks compute slower, e.g. 3:2,5:1.5 for rank 3 twofold and rank 5 by a half")
      ->type_name("RANK:FACTOR,...");
  add_run_options(*run, options.run);
  run->add_option("--json", options.json,
                  "write the figures to FILE, or instead of the table to - (standard output); "
                  "docs/json.md lists the keys")
      ->type_name("FILE");
  run->add_option("--trace", options.trace, "write every step of every rank to an HDF5 file")
      ->type_name("FILE");
}

}  // namespace

Command add_simulate_command(CLI::App& app, const std::string& command_line) {
  auto options = std::make_shared<Options>();
  options->command_line = command_line;
  CLI::App* simulate = app.add_subcommand(
      "simulate", "Train on the same steps without and with balancing, and compare (under mpirun)");
  add_data_options(*simulate, options->data);
  add_balancing_options(*simulate, *options);
  add_limit_options(*simulate, options->limits);
  add_hardware_options(*simulate, options->machine, "measured");
  add_model_options(*simulate, *options);
  add_measurement_options(*simulate, *options);
  simulate->footer(
      "Threads of a rank: OMP_NUM_THREADS. The speed-up is the mean step time without balancing "
      "over that with it; what the imbalance allowed is the largest over the mean busy time "
      "without it.");
  return {simulate, true, [options] { run(*options); }};
}

}  // namespace knapformer::cli
