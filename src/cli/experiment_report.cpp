// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/experiment_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/machine_options.hpp"
#include "cli/model_options.hpp"
#include "cli/quantities.hpp"
#include "plan/message.hpp"

namespace knapformer::cli {
namespace {

using nlohmann::ordered_json;

/// Medians over the measured steps of a cell. Ratios are medians of the ratios of steps.
struct Figures {
  double busy_max = 0, busy_mean = 0;  ///< over ranks
  double busy_max_over_mean = 1;
  double work_max_over_mean = 1;
  double step_seconds = 0;
  double tokens_per_second = 0;
  double hfu = 0;
  double speedup = 1;  ///< over the first cell, step by step
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

double busy_max(const TraceStep& step) {
  return std::ranges::max(step.ranks, {}, &TraceRank::busy_seconds).busy_seconds;
}

double busy_mean(const TraceStep& step) {
  double sum = 0;
  for (const TraceRank& rank : step.ranks) sum += rank.busy_seconds;
  return sum / static_cast<double>(step.ranks.size());
}

/// Of ranks that share cores it is modelled: all wait for the busiest.
double step_seconds(const Comparison& measured, const TraceStep& step) {
  return measured.clock == ClockKind::kCpu ? busy_max(step) : step.seconds;
}

double over(double part, double whole) { return whole > 0 ? part / whole : 1; }

Figures figures_of(const ExperimentReport& report, const WorkloadResult& result,
                   const std::vector<TraceStep>& steps) {
  const Comparison& measured = result.measured;
  const auto of_steps = [&](const std::function<double(std::size_t)>& figure) {
    std::vector<double> values;
    for (std::size_t i = 0; i < steps.size(); ++i) values.push_back(figure(i));
    return median(std::move(values));
  };
  const double flops = measured.flops / static_cast<double>(steps.size());
  const double peak = static_cast<double>(report.ranks) * report.calibration.gemm_flops;
  Figures out;
  out.busy_max = of_steps([&](std::size_t i) { return busy_max(steps[i]); });
  out.busy_mean = of_steps([&](std::size_t i) { return busy_mean(steps[i]); });
  out.busy_max_over_mean =
      of_steps([&](std::size_t i) { return over(busy_max(steps[i]), busy_mean(steps[i])); });
  out.work_max_over_mean =
      of_steps([&](std::size_t i) { return steps[i].groups.front().max_over_mean_after; });
  out.step_seconds = of_steps([&](std::size_t i) { return step_seconds(measured, steps[i]); });
  out.tokens_per_second = of_steps([&](std::size_t i) {
    return static_cast<double>(steps[i].groups.front().total_tokens) /
           step_seconds(measured, steps[i]);
  });
  out.hfu = over(flops, out.step_seconds * peak);
  out.speedup = of_steps([&](std::size_t i) {
    return over(step_seconds(measured, measured.steps.front()[i]),
                step_seconds(measured, steps[i]));
  });
  return out;
}

/// What is predicted at full size.
struct Prediction {
  double work_max_over_mean = 1;
  double step_seconds = 0;
  double tokens_per_second = 0;
  double hfu = 0;  ///< of the FLOP/s that the machine has at its usual work
  double speedup = 1;
};

Prediction prediction_of(const TunerResult& predicted, std::size_t cell) {
  const TunerRow& row = predicted.rows[cell];
  const TunerSample& sample = predicted.sample;
  const double tokens = static_cast<double>(sample.tokens) / static_cast<double>(sample.steps);
  return {.work_max_over_mean = row.max_over_mean,
          .step_seconds = row.step_seconds,
          .tokens_per_second = tokens / row.step_seconds,
          .hfu = over(sample.ideal_seconds, row.step_seconds),
          .speedup = over(sample.home_seconds, row.step_seconds)};
}

std::string name_of(const Placement& placement) {
  return placement.topology ? placement.name() : "no balancing";
}

std::string describe_experiment(const ExperimentReport& report) {
  const SimulationOptions& options = report.options;
  const bool shared = report.results.front().measured.clock == ClockKind::kCpu;
  std::string out = fmt::format("The experiment of arXiv 2508.06001 on {} with {} each\n\n",
                                plural(report.ranks, "rank"), plural(report.threads, "thread"));
  out += fmt::format("model      {}, {}\n", describe(options.model), report.dtype);
  out += fmt::format(
      "data       what {} GPUs load, every sequence {:.4g} times as long, so that attention has\n"
      "           the same share of the work as at full size; seed {}\n",
      kPaperRanks, report.scale, report.seed);
  out += fmt::format("cost       6 d L + {:.2f} L^2{}; GEMM peak {} a rank{}\n", options.gamma,
                     report.gamma_measured ? " (measured)" : "",
                     quantity(report.calibration.gemm_flops, "FLOP/s"),
                     report.peak_measured ? " (measured)" : "");
  out += fmt::format("steps      {} of each cell, taking turns, after {} to warm up; medians\n",
                     options.steps, options.warmup);
  out += shared ? "step time  ranks share cores here: busy times are CPU time, and a step is "
                  "modelled as the\n           largest busy time of a rank\n"
                : "step time  measured\n";
  out += fmt::format(
      "predicted  FLUX on {} GPUs: {}, d {}, {}, 6 d L + {:g} L^2, {} an element;\n"
      "           {}\n",
      report.full.ranks, plural(report.full.machine.layers, "layer"), report.full.cost.d_model(),
      plural(report.full.heads, "head"), report.full_gamma,
      plural(report.full.machine.bytes_per_element, "byte"), describe(report.full.machine));
  std::string missing;
  for (const ExperimentCell& cell : report.cells) {
    if (!cell.here) missing += (missing.empty() ? "" : ", ") + cell.full.name();
  }
  if (!missing.empty()) {
    out += fmt::format("left out   {}: {} cannot be divided into such bags; predicted only\n",
                       missing, plural(report.ranks, "rank"));
  }
  return out;
}

constexpr int kNameWidth = 14;

std::string rate(double tokens) { return quantity(std::round(tokens), "/s"); }
std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string ratio(double value) { return fmt::format("{:.3f}", value); }

/// A figure of a cell here.
struct Column {
  const char* heading;
  const char* subheading;
  int width;
  std::string (*text)(const Figures&);
};

/// Where ranks share cores, a step is what the busiest rank takes.
std::vector<Column> columns_here(bool shared) {
  std::vector<Column> out = {
      {"WIR", "work", 7, [](const Figures& f) { return ratio(f.work_max_over_mean); }},
      {"WIR", "busy", 7, [](const Figures& f) { return ratio(f.busy_max_over_mean); }},
      {"busy", "mean", 10, [](const Figures& f) { return duration(f.busy_mean); }},
      {"busy", "max", 10, [](const Figures& f) { return duration(f.busy_max); }},
      {"step", "", 10, [](const Figures& f) { return duration(f.step_seconds); }},
      {"tokens", "", 11, [](const Figures& f) { return rate(f.tokens_per_second); }},
      {"HFU", "", 8, [](const Figures& f) { return percent(f.hfu); }},
      {"speed-up", "", 10, [](const Figures& f) { return ratio(f.speedup); }}};
  if (shared) {
    out[3].heading = "step:";
    out[3].subheading = "busy max";
    out.erase(out.begin() + 4);
  }
  return out;
}

template <class Text>
std::string line_of(const std::vector<Column>& columns, const Text& text) {
  std::string line;
  for (const Column& column : columns) {
    line += fmt::format("{:>{}}", std::string(text(column)), column.width);
  }
  return line;
}

template <class... Cells>
std::string full_columns(const Cells&... cells) {
  return fmt::format("{:<13}{:>6}{:>10}{:>11}{:>8}{:>10}", cells...);
}

std::string row(const std::string& name, const std::string& here, const std::string& full) {
  std::string line = fmt::format("{:<{}}{}  | {}", name, kNameWidth, here, full);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string table(const ExperimentReport& report, const WorkloadResult& result) {
  const TunerSample& sample = result.predicted.sample;
  const bool shared = result.measured.clock == ClockKind::kCpu;
  const std::vector<Column> columns = columns_here(shared);
  const std::string blank = line_of(columns, [](const Column&) { return ""; });
  const auto steps = static_cast<double>(sample.steps);
  std::string out = fmt::format(
      "\n{} ({}), {:.0f} sequences a step; here {:.0f} tokens, the longest {}; at full size "
      "{:.0f}, "
      "the longest {}\n",
      result.workload->title, result.workload->name, static_cast<double>(sample.sequences) / steps,
      result.tokens, result.longest, static_cast<double>(sample.tokens) / steps, sample.longest);
  const std::string title =
      fmt::format("{}, {}", plural(report.ranks, "rank"), shared ? "steps modelled" : "measured");
  out += row("", fmt::format("{:>{}}", title, blank.size()),
             fmt::format("{} GPUs at full size, predicted", kPaperRanks));
  out += row("", line_of(columns, [](const Column& column) { return column.heading; }),
             full_columns("", "WIR", "step", "tokens", "HFU*", "speed-up"));
  out += row("", line_of(columns, [](const Column& column) { return column.subheading; }),
             full_columns("", "work", "", "", "", ""));
  std::size_t measured = 0;
  for (std::size_t c = 0; c < report.cells.size(); ++c) {
    const ExperimentCell& cell = report.cells[c];
    std::string name = "-", here = blank;
    if (cell.here) {
      const Figures f = figures_of(report, result, result.measured.steps[measured++]);
      name = name_of(*cell.here);
      here = line_of(columns, [&](const Column& column) { return column.text(f); });
    }
    const Prediction p = prediction_of(result.predicted, c);
    out +=
        row(name, here,
            full_columns(name_of(cell.full), ratio(p.work_max_over_mean), duration(p.step_seconds),
                         rate(p.tokens_per_second), percent(p.hfu), ratio(p.speedup)));
  }
  out +=
      fmt::format("loss: largest relative difference from no balancing {:.1e} (at most {:.0e})\n",
                  largest_difference(result.loss_differences), report.tolerance);
  return out;
}

ordered_json to_json(const Figures& f) {
  return {{"work_max_over_mean", f.work_max_over_mean},
          {"busy_max_over_mean", f.busy_max_over_mean},
          {"busy_max_seconds", f.busy_max},
          {"busy_mean_seconds", f.busy_mean},
          {"step_seconds", f.step_seconds},
          {"tokens_per_second", f.tokens_per_second},
          {"hfu", f.hfu},
          {"speedup", f.speedup}};
}

ordered_json to_json(const Prediction& p) {
  return {{"work_max_over_mean", p.work_max_over_mean},
          {"step_seconds", p.step_seconds},
          {"tokens_per_second", p.tokens_per_second},
          {"share_of_flops", p.hfu},
          {"speedup", p.speedup}};
}

ordered_json to_json(const ExperimentReport& report, const WorkloadResult& result) {
  ordered_json out = {{"name", result.workload->name},
                      {"data_codes", result.workload->codes},
                      {"tokens_per_step", result.tokens},
                      {"longest", result.longest},
                      {"flops", result.measured.flops},
                      {"loss_relative_difference", largest_difference(result.loss_differences)}};
  auto& cells = out["cells"] = ordered_json::array();
  std::size_t measured = 0;
  for (std::size_t c = 0; c < report.cells.size(); ++c) {
    const ExperimentCell& cell = report.cells[c];
    ordered_json entry = {{"full", cell.full.name()}, {"here", nullptr}, {"measured", nullptr}};
    if (cell.here) {
      entry["here"] = cell.here->name();
      auto& of = entry["measured"] =
          to_json(figures_of(report, result, result.measured.steps[measured]));
      of["loss_relative_difference"] = result.loss_differences[measured];
      auto& losses = of["losses"] = ordered_json::array();
      for (const TraceStep& step : result.measured.steps[measured]) losses.push_back(step.loss);
      ++measured;
    }
    entry["predicted"] = to_json(prediction_of(result.predicted, c));
    cells.push_back(std::move(entry));
  }
  return out;
}

}  // namespace

std::vector<ExperimentCell> experiment_cells(std::int64_t ranks) {
  std::vector<ExperimentCell> cells{{.full = {}, .here = Placement{}}};
  for (const std::int64_t degree : {1, 2, 4, 8}) {
    const auto bags = [&](std::int64_t of) {
      return Placement{Topology::parse(fmt::format("g{}n{}", degree, of / degree))};
    };
    ExperimentCell cell{.full = bags(kPaperRanks)};
    if (ranks % degree == 0) cell.here = bags(ranks);
    cells.push_back(std::move(cell));
  }
  cells.push_back({.full = {Topology::elastic()}, .here = Placement{Topology::elastic()}});
  return cells;
}

double largest_difference(const std::vector<double>& differences) {
  double largest = 0;
  for (const double difference : differences) {
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

std::string experiment_table(const ExperimentReport& report) {
  std::string out = describe_experiment(report);
  for (const WorkloadResult& result : report.results) out += table(report, result);
  out +=
      "\nWIR: largest over mean of a rank, of work as planned and of busy time.\n"
      "speed-up: step time without balancing over that of the row; here the median over steps.\n"
      "* share of the FLOP/s that the machine model gives a GPU, that is of no waiting and no "
      "communication\n";
  return out;
}

std::string experiment_json(const ExperimentReport& report) {
  const SimulationOptions& options = report.options;
  const auto& model = std::get<MMDiTConfig>(options.model);
  const bool shared = report.results.front().measured.clock == ClockKind::kCpu;
  ordered_json out = {{"ranks", report.ranks},
                      {"threads", report.threads},
                      {"seed", report.seed},
                      {"double_blocks", model.double_blocks},
                      {"single_blocks", model.single_blocks},
                      {"d_model", model.d_model},
                      {"heads", model.heads},
                      {"dtype", report.dtype},
                      {"checkpoint", model.checkpoint},
                      {"length_scale", report.scale},
                      {"gamma", options.gamma},
                      {"gamma_measured", report.gamma_measured},
                      {"peak_flops", report.calibration.gemm_flops},
                      {"peak_measured", report.peak_measured},
                      {"machine", machine_json(options.machine)},
                      {"steps", options.steps},
                      {"warmup", options.warmup},
                      {"clock", shared ? "cpu" : "wall"},
                      {"step_seconds_are", shared ? "largest busy time" : "measured"},
                      {"full_size",
                       {{"ranks", report.full.ranks},
                        {"d_model", report.full.cost.d_model()},
                        {"heads", report.full.heads},
                        {"gamma", report.full_gamma},
                        {"machine", machine_json(report.full.machine)}}},
                      {"loss_tolerance", report.tolerance}};
  auto& workloads = out["workloads"] = ordered_json::array();
  for (const WorkloadResult& result : report.results) workloads.push_back(to_json(report, result));
  return out.dump(2) + '\n';
}

}  // namespace knapformer::cli
