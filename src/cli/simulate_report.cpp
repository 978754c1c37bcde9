// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/simulate_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/machine_options.hpp"
#include "cli/memory_report.hpp"
#include "cli/model_options.hpp"
#include "cli/quantities.hpp"
#include "plan/message.hpp"

namespace knapformer::cli {

namespace {

struct Placements {
  PlacementSummary unbalanced;
  PlacementSummary balanced;
};

double hfu(const SimulationReport& report, const PlacementSummary& placement) {
  return report.simulation.flops / (placement.seconds * static_cast<double>(report.run.ranks) *
                                    report.calibration.gemm_flops);
}

std::string ratio(double r) { return std::isfinite(r) ? fmt::format("{:.3f}", r) : "inf"; }
std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

template <class Figure>
std::string row(const char* name, const Placements& of, const Figure& figure) {
  return fmt::format("{:<38}{:>14}{:>14}\n", name, figure(of.unbalanced), figure(of.balanced));
}

bool is_causal(const ModelConfig& model) {
  const auto* transformer = std::get_if<TransformerConfig>(&model);
  return transformer != nullptr && transformer->causal;
}

bool is_checkpointed(const ModelConfig& model) {
  return std::visit([](const auto& of) { return of.checkpoint; }, model);
}

std::string describe_run(const SimulationReport& report) {
  const TraceHeader& run = report.run;
  const ModelConfig& model = report.options.model;
  std::string out =
      fmt::format("{} with {} each, balancing in groups of {} as {}\n", plural(run.ranks, "rank"),
                  plural(run.threads, "thread"), run.group_size, run.topology);
  out += fmt::format("data   {}\n", run.data);
  out += fmt::format("model  {}, {}, {} attention, {}\n", describe(model), run.dtype,
                     is_causal(model) ? "causal" : "full",
                     is_checkpointed(model) ? "blocks recomputed in backward" : "activations kept");
  out +=
      fmt::format("cost   6 d L + {:.2f} L^2{}; GEMM peak {:.1f} GFLOP/s a rank{}\n", run.gamma,
                  report.gamma_measured ? " (measured)" : "", report.calibration.gemm_flops / 1e9,
                  report.peak_measured ? " (measured)" : "");
  for (std::size_t r = 0; r < report.options.slowdowns.size(); ++r) {
    const double slowdown = report.options.slowdowns[r];
    if (slowdown > 1)
      out += fmt::format("slowed rank {} computes {:g} times slower\n", r, slowdown);
  }
  const bool images = std::holds_alternative<MMDiTConfig>(model) && run.loss_mean == "tokens";
  out += fmt::format("loss   mean over {}{}{}\n", images ? "image " : "", run.loss_mean,
                     run.micro_batches > 1
                         ? fmt::format(", in {} a step", plural(run.micro_batches, "micro-batch"))
                         : "");
  out += fmt::format("steps  {} of each placement, taking turns, after {} to warm up\n",
                     report.options.steps, report.options.warmup);
  return out;
}

/// What the balancer has learnt of the ranks.
std::string describe_speeds(const TraceStep& last) {
  const auto [slowest, fastest] =
      std::ranges::minmax_element(last.ranks, {}, &TraceRank::speed_estimate);
  return fmt::format(
      "speeds found, over the mean of the group: {:.3f} (rank {}, the slowest) to {:.3f} (rank "
      "{})\n",
      slowest->speed_estimate, slowest - last.ranks.begin(), fastest->speed_estimate,
      fastest - last.ranks.begin());
}

}  // namespace

std::string format_table(const SimulationReport& report) {
  using Summary = PlacementSummary;
  const Simulation& simulation = report.simulation;
  const Placements of{summarise(simulation.unbalanced), summarise(simulation.balanced)};
  std::string out = describe_run(report);
  out += fmt::format("\n{:<38}{:>14}{:>14}\n", "", "unbalanced", "balanced");
  out += row("step time, mean", of, [&](const Summary& s) {
    return duration(s.seconds / static_cast<double>(report.options.steps));
  });
  out += row("step time, median", of, [](const Summary& s) { return duration(s.median_seconds); });
  out += row("tokens/s", of,
             [](const Summary& s) { return fmt::format("{:.0f}", s.tokens / s.seconds); });
  out += row("HFU", of, [&](const Summary& s) { return percent(hfu(report, s)); });
  out +=
      row("WIR max/mean, work", of, [](const Summary& s) { return ratio(s.work_max_over_mean); });
  out += row("WIR max/min, work", of, [](const Summary& s) { return ratio(s.work_max_over_min); });
  out += row("WIR max/mean, busy time", of, [](const Summary& s) {
    return ratio(s.busy_mean > 0 ? s.busy_max / s.busy_mean : 1);
  });
  out += row("tokens moved", of, [](const Summary& s) { return percent(s.moved_share); });
  const double steps = static_cast<double>(report.options.steps);
  out += row("routed per step", of,
             [&](const Summary& s) { return quantity(s.bytes_routed / steps, "B"); });
  out += row("pre/post-attention per step", of,
             [&](const Summary& s) { return quantity(s.bytes_exchanged / steps, "B"); });
  const bool shared = simulation.clock == ClockKind::kCpu;
  out += fmt::format("{} per rank and step, mean\n", shared ? "CPU time" : "time");
  for (std::size_t p = 0; p < kPhases; ++p) {
    out += row(fmt::format("  {}", kPhaseNames[p]).c_str(), of,
               [&](const Summary& s) { return duration(s.phase_seconds[p]); });
  }
  out += "hidden behind compute, at most\n";
  out += row("  planning", of, [](const Summary& s) { return duration(s.hidden_plan_seconds); });
  out +=
      row("  exchanges", of, [](const Summary& s) { return duration(s.hidden_exchange_seconds); });

  out += memory_table(simulation.unbalanced.back(), simulation.balanced.back());
  const double gained = simulation.speedup() - 1, possible = simulation.bound() - 1;
  out += fmt::format(
      "\nspeed-up {:.3f}, mean step time unbalanced over balanced; the imbalance allowed {:.3f}",
      1 + gained, 1 + possible);
  if (possible > 0.02) out += fmt::format(" ({:.0f} % of the gain)", 100 * gained / possible);
  const double difference = simulation.loss_difference();
  out += std::isfinite(difference)
             ? fmt::format("\nloss: largest relative difference between the placements {:.1e}\n",
                           difference)
             : "\nloss: not finite in some step; a lower --learning-rate may help\n";
  if (report.options.adapt_to_speed) out += describe_speeds(simulation.balanced.back());
  if (shared) {
    out +=
        "Ranks share cores here: busy and phase times are CPU time, and step times do not show the "
        "balance.\n";
  }
  return out;
}

namespace {

nlohmann::ordered_json to_json(const SimulationReport& report, const PlacementSummary& s) {
  const double steps = static_cast<double>(report.options.steps);
  nlohmann::ordered_json phases;
  for (std::size_t p = 0; p < kPhases; ++p)
    phases[std::string(kPhaseNames[p])] = s.phase_seconds[p];
  return {{"seconds", s.seconds},
          {"mean_step_seconds", s.seconds / steps},
          {"median_step_seconds", s.median_seconds},
          {"tokens", s.tokens},
          {"tokens_per_second", s.tokens / s.seconds},
          {"hfu", hfu(report, s)},
          {"work_max_over_mean", s.work_max_over_mean},
          {"work_max_over_min", s.work_max_over_min},  // null when infinite
          {"busy_max_seconds", s.busy_max},
          {"busy_mean_seconds", s.busy_mean},
          {"moved_share", s.moved_share},
          {"bytes_routed_per_step", s.bytes_routed / steps},
          {"bytes_exchanged_per_step", s.bytes_exchanged / steps},
          {"phase_seconds_per_rank_and_step", phases},
          {"hidden_seconds_per_rank_and_step",
           {{"planning", s.hidden_plan_seconds}, {"exchanges", s.hidden_exchange_seconds}}}};
}

nlohmann::ordered_json to_json(const std::vector<TraceStep>& steps) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const TraceStep& step : steps) {
    nlohmann::ordered_json work = nlohmann::ordered_json::array(), busy = work, speeds = work;
    for (const TraceRank& rank : step.ranks) {
      work.push_back(rank.work_after);
      busy.push_back(rank.busy_seconds);
      speeds.push_back(rank.speed_estimate);
    }
    out.push_back({{"index", step.index},
                   {"seconds", step.seconds},
                   {"loss", step.loss},
                   {"work", work},
                   {"busy_seconds", busy},
                   {"speed_estimate", speeds}});
  }
  return out;
}

}  // namespace

nlohmann::ordered_json to_json(const SimulationReport& report) {
  const TraceHeader& run = report.run;
  const ModelConfig& model = report.options.model;
  const Simulation& simulation = report.simulation;
  return {{"ranks", run.ranks},
          {"threads", run.threads},
          {"group_size", run.group_size},
          {"topology", run.topology},
          {"data", run.data},
          {"seed", run.seed},
          {"model", std::holds_alternative<MMDiTConfig>(model) ? "mmdit" : "transformer"},
          {"layers", shape_of(model).layers},
          {"d_model", shape_of(model).d_model},
          {"heads", shape_of(model).heads},
          {"kv_heads", shape_of(model).plan_heads},
          {"dtype", run.dtype},
          {"causal", is_causal(model)},
          {"checkpoint", is_checkpointed(model)},
          {"gamma", run.gamma},
          {"gamma_measured", report.gamma_measured},
          {"peak_flops", report.calibration.gemm_flops},
          {"peak_measured", report.peak_measured},
          {"machine", machine_json(report.options.machine)},
          {"adapt_to_speed", report.options.adapt_to_speed},
          {"micro_batches", run.micro_batches},
          {"loss_mean", run.loss_mean},
          {"slowdowns", report.options.slowdowns},  // empty when no rank is slowed
          {"steps", report.options.steps},
          {"warmup", report.options.warmup},
          {"clock", simulation.clock == ClockKind::kCpu ? "cpu" : "wall"},
          {"flops", simulation.flops},
          {"unbalanced", to_json(report, summarise(simulation.unbalanced))},
          {"balanced", to_json(report, summarise(simulation.balanced))},
          {"memory_bytes_per_rank",
           {{"unbalanced", memory_json(simulation.unbalanced.back())},
            {"balanced", memory_json(simulation.balanced.back())}}},
          {"speedup", simulation.speedup()},
          {"bound", simulation.bound()},
          {"loss_relative_difference", simulation.loss_difference()},  // null when not finite
          {"unbalanced_steps", to_json(simulation.unbalanced)},
          {"balanced_steps", to_json(simulation.balanced)}};
}

}  // namespace knapformer::cli
