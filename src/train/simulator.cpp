// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <knapformer/route/balancer.hpp>
#include <knapformer/train/simulator.hpp>
#include <knapformer/train/trainer.hpp>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "comm/mpi_check.hpp"
#include "plan/message.hpp"

namespace knapformer {

namespace {

/// Ratios are means over micro-batches, weighted by work: the largest works added up over the means
/// added up, as ranks wait for each other in every micro-batch.
TraceGroup describe_group(const std::vector<Routing>& routings) {
  const auto work = [](const Routing& routing) {
    const std::vector<double>& of_ranks = routing.plan().report().work_after;
    return std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0);
  };
  double all_work = 0;
  for (const Routing& routing : routings) all_work += work(routing);
  TraceGroup group{.plan_hash = 0,
                   .max_over_mean_before = 0,
                   .max_over_mean_after = 0,
                   .max_over_min_before = 0,
                   .max_over_min_after = 0};
  for (const Routing& routing : routings) {
    const PlanReport& report = routing.plan().report();
    const double weight =
        all_work > 0 ? work(routing) / all_work : 1 / static_cast<double>(routings.size());
    const auto add = [weight](double& sum, double ratio) {
      if (weight > 0) sum += weight * ratio;
    };
    add(group.max_over_mean_before, report.max_over_mean_before);
    add(group.max_over_mean_after, report.max_over_mean);
    add(group.max_over_min_before, report.max_over_min_before);
    add(group.max_over_min_after, report.max_over_min);
    add(group.lower_bound_gap, report.lower_bound_gap);
    group.plan_hash = group.plan_hash * 0x9e3779b97f4a7c15 + routing.plan().hash();
    group.moved_tokens += report.moved_tokens;
    group.total_tokens += report.total_tokens;
    group.plan_seconds += report.plan_seconds;
  }
  return group;
}

TraceRank describe_rank(const StepOutcome& outcome, const MemoryUse& predicted,
                        std::int64_t sequences) {
  const PhaseTimes& phases = outcome.phases;
  TraceRank rank{.sequences = sequences,
                 .plan_seconds = phases[Phase::kPlan],
                 .route_seconds = phases[Phase::kRoute],
                 .exchange_seconds = phases[Phase::kExchange],
                 .compute_seconds = phases[Phase::kCompute],
                 .reduce_seconds = phases[Phase::kReduce],
                 .wait_seconds = phases[Phase::kWait],
                 .busy_seconds = phases.busy(),
                 .hidden_plan_seconds = outcome.hidden_plan,
                 .hidden_exchange_seconds = outcome.hidden_exchange,
                 .speed_estimate = outcome.speed_estimate,
                 .bytes_routed = outcome.bytes_routed,
                 .bytes_exchanged = outcome.bytes_exchanged,
                 .memory_parameters = outcome.memory.parameters,
                 .memory_gradients = outcome.memory.gradients,
                 .memory_optimizer = outcome.memory.optimizer,
                 .memory_activations = outcome.memory.activations,
                 .memory_exchange = outcome.memory.exchange + outcome.memory.scratch,
                 .predicted_activations = predicted.activations,
                 .predicted_exchange = predicted.exchange + predicted.scratch};
  for (const Routing& routing : outcome.routings) {
    const PlanReport& report = routing.plan().report();
    const auto me = static_cast<std::size_t>(routing.group().rank());
    rank.tokens_before += report.tokens_before[me];
    rank.tokens_after += report.tokens_after[me];
    rank.work_before += report.work_before[me];
    rank.work_after += report.work_after[me];
  }
  return rank;
}

/// Brings what each rank knows of a step together; every rank gets all of it.
TraceStep gather_step(const Communicator& world, const DataSource& data, const StepOutcome& outcome,
                      const MemoryUse& predicted, std::int64_t index, bool balanced,
                      double& flops) {
  struct Mine {
    TraceGroup group;
    TraceRank rank;
    double seconds;
    double loss;
    double flops;
  };
  TraceStep step{.index = index, .balanced = balanced};
  for (int r = 0; r < world.size(); ++r) step.lengths.push_back(data.lengths(index, r));
  const auto sequences =
      static_cast<std::int64_t>(step.lengths[static_cast<std::size_t>(world.rank())].size());
  const Mine mine{describe_group(outcome.routings), describe_rank(outcome, predicted, sequences),
                  outcome.seconds, outcome.loss, outcome.flops};
  const std::vector<Mine> all = world.all_gather(std::span<const Mine>(&mine, 1));
  const int group_size = outcome.routings.front().group().size();
  for (int r = 0; r < world.size(); ++r) {
    const Mine& of = all[static_cast<std::size_t>(r)];
    if (r % group_size == 0) step.groups.push_back(of.group);
    step.groups.back().plan_seconds =
        std::max(step.groups.back().plan_seconds, of.group.plan_seconds);
    step.ranks.push_back(of.rank);
    step.seconds = std::max(step.seconds, of.seconds);
    step.loss += of.loss;
    flops += of.flops;
  }
  return step;
}

/// The topology that a placement's groups are made for.
const Topology& topology_of(const SimulationOptions& options, const Placement& placement) {
  return placement.topology ? *placement.topology : options.topology;
}

int group_size_of(const SimulationOptions& options, const Topology& topology, int world) {
  if (options.group_size > 0) return static_cast<int>(options.group_size);
  return topology.is_elastic() ? world : static_cast<int>(topology.ranks());
}

BalancerOptions balancer_options(const SimulationOptions& options, const Placement& placement,
                                 const Communicator& world, const Communicator& group) {
  Machine machine = options.machine;
  machine.check(world.size());
  if (!machine.speeds.empty()) {  // those of this group
    const auto first = machine.speeds.begin() + (world.rank() - group.rank());
    machine.speeds = std::vector<double>(first, first + group.size());
  }
  const ModelShape model = shape_of(options.model);
  const bool balance = placement.topology.has_value();
  return {.topology = topology_of(options, placement),
          .cost = CostModel::transformer(model.d_model, options.gamma),
          .heads = model.plan_heads,
          .balance = balance,
          .machine = std::move(machine),
          .max_tokens_per_rank = options.max_tokens_per_rank,
          .max_attention_tokens_per_rank = options.max_attention_tokens_per_rank,
          .plan_budget = options.plan_budget,
          .adapt_to_speed = balance && options.adapt_to_speed};
}

double slowdown_of(const SimulationOptions& options, const Communicator& world) {
  if (options.slowdowns.empty()) return 1;
  const auto ranks = static_cast<std::size_t>(world.size());
  if (options.slowdowns.size() != ranks) {
    throw Error(fmt::format("simulation: {} for {}; give one for each, or none",
                            plural(std::ssize(options.slowdowns), "slowdown"),
                            plural(world.size(), "rank")));
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    const double slowdown = options.slowdowns[r];
    if (std::isfinite(slowdown) && slowdown >= 1) continue;
    throw Error(
        fmt::format("simulation: the slowdown of rank {} is {}; give a finite number of at least 1",
                    r, slowdown));
  }
  return options.slowdowns[static_cast<std::size_t>(world.rank())];
}

/// One placement on the way.
template <class T, template <class> class Task>
struct Contender {
  Contender(const Communicator& world, const SimulationOptions& options, const Placement& placement,
            const typename Task<T>::Config& model)
      // A group of its own, so that the memory that it holds is known.
      : group(world.split(group_size_of(options, topology_of(options, placement), world.size()))),
        trainer(world, Balancer(group, balancer_options(options, placement, world, group)), model,
                {.seed = options.seed,
                 .learning_rate = options.learning_rate,
                 .micro_batches = options.micro_batches,
                 .loss_mean = options.loss_mean}),
        balanced(placement.topology.has_value()) {}

  /// What this rank needs for the micro-batches of a step and of those before: buffers only grow.
  void predict_memory(const Device& exec, const typename Task<T>::Config& model,
                      std::span<const typename Task<T>::Batch> parts,
                      const std::vector<Routing>& routings) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      needed = largest(needed, Task<T>::predicted_memory(exec, model, parts[i], routings[i]));
    }
  }

  Communicator group;
  Trainer<T, Task> trainer;
  bool balanced;
  MemoryUse needed = {};
};

template <class T, template <class> class Task>
Comparison compare_training(const Communicator& world, const Device& exec, const DataSource& data,
                            const SimulationOptions& options, const typename Task<T>::Config& model,
                            std::span<const Placement> placements,
                            const std::function<void(const TraceStep&)>& on_step) {
  const double slowdown = slowdown_of(options, world);
  std::vector<Contender<T, Task>> contenders;
  contenders.reserve(placements.size());
  for (const Placement& placement : placements) {
    contenders.emplace_back(world, options, placement, model);
  }
  const ClockOptions clock{.kind = choose_clock(world, exec), .slowdown = slowdown};
  Comparison comparison{.clock = clock.kind};
  comparison.steps.resize(placements.size());
  const std::int64_t last = options.warmup + options.steps - 1;
  for (std::int64_t i = 0; i <= last; ++i) {
    const auto batch = Task<T>::make_batch(exec, data.lengths(i, world.rank()), model, options.seed,
                                           i, world.rank());
    std::vector<typename Task<T>::Batch> parts;
    for (std::int64_t part = 0; part < options.micro_batches; ++part) {
      parts.push_back(micro_batch(batch, part, options.micro_batches));
    }
    std::optional<std::vector<std::int64_t>> next;
    if (i < last) {
      next = data.lengths(i + 1, world.rank());
      next->resize(next->size() / static_cast<std::size_t>(options.micro_batches));
    }
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      const std::size_t which = (turn + static_cast<std::size_t>(i)) % contenders.size();
      Contender<T, Task>& of = contenders[which];
      world.barrier();  // so that the time of a step begins alike everywhere
      const StepOutcome outcome =
          of.trainer.step(exec, std::span<const typename Task<T>::Batch>(parts), next, clock);
      of.predict_memory(exec, model, parts, outcome.routings);
      if (i < options.warmup) continue;
      double flops = 0;
      TraceStep step = gather_step(world, data, outcome, of.needed, i, of.balanced, flops);
      if (on_step) on_step(step);
      if (which == 0) comparison.flops += flops;
      comparison.steps[which].push_back(std::move(step));
    }
  }
  return comparison;
}

}  // namespace

ClockKind choose_clock(const Communicator& world, const Device& exec) {
  struct Host {
    std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
    std::int64_t threads = 0;
    std::int64_t cores = 0;
  };
  Host mine{.threads = exec.concurrency(),
            .cores = std::max(1u, std::thread::hardware_concurrency())};
  int length = 0;
  check_mpi(MPI_Get_processor_name(mine.name.data(), &length), "MPI_Get_processor_name");
  const std::vector<Host> all = world.all_gather(std::span<const Host>(&mine, 1));
  constexpr bool host =
      Kokkos::SpaceAccessibility<Kokkos::HostSpace, Device::memory_space>::accessible;
  std::map<decltype(mine.name), std::int64_t> threads;
  for (const Host& of : all) threads[of.name] += of.threads;
  const bool shared =
      host && std::ranges::any_of(all, [&](const Host& of) { return threads[of.name] > of.cores; });
  return shared ? ClockKind::kCpu : ClockKind::kWall;
}

double Simulation::speedup() const {
  return summarise(unbalanced).seconds / summarise(balanced).seconds;
}

double Simulation::bound() const {
  const PlacementSummary summary = summarise(unbalanced);
  return summary.busy_mean > 0 ? summary.busy_max / summary.busy_mean : 1;
}

double loss_difference(const std::vector<TraceStep>& of, const std::vector<TraceStep>& other) {
  double largest = 0;
  for (std::size_t i = 0; i < of.size(); ++i) {
    const double a = of[i].loss, b = other[i].loss;
    if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::quiet_NaN();
    if (a != b) largest = std::max(largest, std::abs(a - b) / std::max(std::abs(a), std::abs(b)));
  }
  return largest;
}

double Simulation::loss_difference() const {
  return knapformer::loss_difference(unbalanced, balanced);
}

PlacementSummary summarise(const std::vector<TraceStep>& steps) {
  PlacementSummary out;
  if (steps.empty()) return out;
  std::vector<double> seconds;
  double groups = 0, moved = 0, max_over_mean = 0, max_over_min = 0, rank_steps = 0;
  for (const TraceStep& step : steps) {
    seconds.push_back(step.seconds);
    out.seconds += step.seconds;
    for (const TraceGroup& group : step.groups) {
      max_over_mean += group.max_over_mean_after;
      max_over_min += group.max_over_min_after;
      moved += static_cast<double>(group.moved_tokens);
      out.tokens += static_cast<double>(group.total_tokens);
      groups += 1;
    }
    double largest = 0, sum = 0;
    for (const TraceRank& rank : step.ranks) {
      largest = std::max(largest, rank.busy_seconds);
      sum += rank.busy_seconds;
      out.hidden_plan_seconds += rank.hidden_plan_seconds;
      out.hidden_exchange_seconds += rank.hidden_exchange_seconds;
      out.bytes_routed += static_cast<double>(rank.bytes_routed);
      out.bytes_exchanged += static_cast<double>(rank.bytes_exchanged);
      const double phases[kPhases] = {rank.plan_seconds,     rank.route_seconds,
                                      rank.exchange_seconds, rank.compute_seconds,
                                      rank.wait_seconds,     rank.reduce_seconds};
      for (std::size_t p = 0; p < kPhases; ++p) out.phase_seconds[p] += phases[p];
    }
    rank_steps += static_cast<double>(step.ranks.size());
    out.busy_max += largest;
    out.busy_mean += sum / static_cast<double>(step.ranks.size());
  }
  std::ranges::sort(seconds);
  out.median_seconds = (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2;
  out.work_max_over_mean = max_over_mean / groups;
  out.work_max_over_min = max_over_min / groups;
  out.moved_share = out.tokens > 0 ? moved / out.tokens : 0;
  for (double& phase : out.phase_seconds) phase /= rank_steps;
  out.hidden_plan_seconds /= rank_steps;
  out.hidden_exchange_seconds /= rank_steps;
  return out;
}

template <class T>
Comparison compare(const Communicator& world, const Device& exec, const DataSource& data,
                   const SimulationOptions& options, std::span<const Placement> placements,
                   const std::function<void(const TraceStep&)>& on_step) {
  if (const auto* model = std::get_if<MMDiTConfig>(&options.model)) {
    return compare_training<T, MMDiTTask>(world, exec, data, options, *model, placements, on_step);
  }
  return compare_training<T, TransformerTask>(
      world, exec, data, options, std::get<TransformerConfig>(options.model), placements, on_step);
}

template <class T>
Simulation simulate(const Communicator& world, const Device& exec, const DataSource& data,
                    const SimulationOptions& options,
                    const std::function<void(const TraceStep&)>& on_step) {
  const Placement placements[] = {{}, {options.topology}};
  Comparison both = compare<T>(world, exec, data, options, placements, on_step);
  return {.clock = both.clock,
          .flops = both.flops,
          .unbalanced = std::move(both.steps[0]),
          .balanced = std::move(both.steps[1])};
}

template Comparison compare<double>(const Communicator&, const Device&, const DataSource&,
                                    const SimulationOptions&, std::span<const Placement>,
                                    const std::function<void(const TraceStep&)>&);
template Simulation simulate<double>(const Communicator&, const Device&, const DataSource&,
                                     const SimulationOptions&,
                                     const std::function<void(const TraceStep&)>&);
template Comparison compare<float>(const Communicator&, const Device&, const DataSource&,
                                   const SimulationOptions&, std::span<const Placement>,
                                   const std::function<void(const TraceStep&)>&);
template Simulation simulate<float>(const Communicator&, const Device&, const DataSource&,
                                    const SimulationOptions&,
                                    const std::function<void(const TraceStep&)>&);
template Comparison compare<bfloat16>(const Communicator&, const Device&, const DataSource&,
                                      const SimulationOptions&, std::span<const Placement>,
                                      const std::function<void(const TraceStep&)>&);
template Simulation simulate<bfloat16>(const Communicator&, const Device&, const DataSource&,
                                       const SimulationOptions&,
                                       const std::function<void(const TraceStep&)>&);

}  // namespace knapformer
