// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/tune_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/machine_options.hpp"
#include "cli/quantities.hpp"
#include "plan/message.hpp"

namespace knapformer::cli {
namespace {

std::string caps(const TunerOptions& options) {
  std::string out;
  const auto add = [&](std::int64_t cap, const char* what) {
    if (cap == PlanRequest::kNoCap) return;
    out += fmt::format("{}{} a rank", out.empty() ? "" : ", ", plural(cap, what));
  };
  add(options.max_tokens_per_rank, "token");
  add(options.max_attention_tokens_per_rank, "attention-resident token");
  return out;
}

std::string describe_sample(const TuneReport& report) {
  const TunerOptions& options = report.options;
  const TunerSample& sample = report.result.sample;
  const Machine& machine = options.machine;
  std::string out = fmt::format("data      {}\n", report.data);
  out += fmt::format("sampled   {} on {}: {}, {}, the longest {}\n", plural(sample.steps, "step"),
                     plural(options.ranks, "rank"), plural(sample.sequences, "sequence"),
                     plural(sample.tokens, "token"), sample.longest);
  out += fmt::format("at home   WIR {:.3f} (worst step {:.3f}); a step takes {}, ideally {}\n",
                     sample.max_over_mean, sample.worst_max_over_mean,
                     duration(sample.home_seconds), duration(sample.ideal_seconds));
  out += fmt::format("machine   {}\n", describe(machine));
  out += fmt::format("model     6 d L + {:g} L^2, d {}, {}, {}, {} an element\n", report.gamma,
                     options.cost.d_model(), plural(options.heads, "head"),
                     plural(machine.layers, "layer"), plural(machine.bytes_per_element, "byte"));
  if (const std::string text = caps(options); !text.empty()) {
    out += fmt::format("caps      {}\n", text);
  }
  return out;
}

std::string ratio(double value) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, value < 100 ? 3 : 0) : "inf";
}
std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }
std::string rounded(double ratio) { return fmt::format("{:.2f}", ratio); }

/// The columns under each heading. A heading is as wide as its columns.
struct Heading {
  const char* text;
  int width;
  std::vector<const char*> columns;
};
const std::vector<Heading> kHeadings = {{"step", 8, {"mean"}},
                                        {"step/ideal", 7, {"mean", "worst"}},
                                        {"max/mean", 8, {"WIR"}},
                                        {"% of tokens", 8, {"moved", "crossed", "Ulysses"}},
                                        {"tokens of a rank", 9, {"max", "max/mean"}},
                                        {"attention-resident", 9, {"max", "max/mean"}},
                                        {"plan", 8, {"median"}}};

std::vector<std::string> cells(const TunerRow& row) {
  return {duration(row.step_seconds),
          ratio(row.step_over_ideal),
          ratio(row.worst_step_over_ideal),
          ratio(row.max_over_mean),
          percent(row.moved_share),
          percent(row.crossed_share),
          percent(row.ulysses_share),
          std::to_string(row.max_tokens),
          rounded(row.tokens_max_over_mean),
          fmt::format("{:.0f}", row.max_attention_tokens),
          rounded(row.attention_tokens_max_over_mean),
          duration(row.plan_seconds)};
}

std::string figures(const TunerRow& row, std::int64_t steps) {
  if (row.refused_steps > 0) {
    return fmt::format("    caps cannot be kept on {} of {}", row.refused_steps,
                       plural(steps, "step"));
  }
  std::string out;
  const std::vector<std::string> texts = cells(row);
  auto text = texts.begin();
  for (const Heading& heading : kHeadings) {
    out += "  ";
    for (std::size_t i = 0; i < heading.columns.size(); ++i) {
      out += fmt::format("{:>{}}", *text++, heading.width);
    }
  }
  return out;
}

/// The fastest first, and after them those that the caps rule out.
std::vector<std::size_t> order(const std::vector<TunerRow>& rows) {
  std::vector<std::size_t> out(rows.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::ranges::stable_sort(out, {}, [&](std::size_t i) {
    const TunerRow& row = rows[i];
    return std::pair(row.refused_steps, row.refused_steps > 0 ? 0 : row.step_seconds);
  });
  return out;
}

std::string table(const TunerResult& result, std::size_t chosen) {
  std::size_t width = 0;
  for (const TunerRow& row : result.rows) width = std::max(width, row.candidate.name().size());
  std::string groups, columns;
  for (const auto& heading : kHeadings) {
    groups += fmt::format("  {:>{}}", heading.text, heading.width * heading.columns.size());
    columns += "  ";
    for (const char* column : heading.columns) {
      columns += fmt::format("{:>{}}", column, heading.width);
    }
  }
  const auto line = [&](const std::string& name, const std::string& rest) {
    return fmt::format("{:<{}}{}\n", name, width + 2, rest);
  };
  std::string out = line("", groups) + line("", columns);
  for (const std::size_t i : order(result.rows)) {
    const TunerRow& row = result.rows[i];
    out +=
        line((i == chosen ? "* " : "  ") + row.candidate.name(), figures(row, result.sample.steps));
  }
  return out;
}

std::string compared(double seconds, double other) {
  const double change = other > 0 ? 100 * (seconds / other - 1) : 0;
  if (std::abs(change) < 0.05) return "as long as";
  return fmt::format("{:.1f} % {} than", std::abs(change), change < 0 ? "shorter" : "longer");
}

std::string recommended(const TuneReport& report) {
  const std::vector<TunerRow>& rows = report.result.rows;
  const Recommendation& recommendation = report.recommendation;
  const TunerRow& chosen = rows[recommendation.chosen];
  std::vector<std::string> comparisons;
  if (recommendation.next_fixed) {
    const TunerRow& fixed = rows[*recommendation.next_fixed];
    comparisons.push_back(fmt::format("{} with {}, the next fixed topology",
                                      compared(chosen.step_seconds, fixed.step_seconds),
                                      fixed.candidate.name()));
  }
  if (chosen.candidate.topology) {
    comparisons.push_back(fmt::format(
        "{} at home", compared(chosen.step_seconds, report.result.sample.home_seconds)));
  }
  std::string out = fmt::format("recommended: {}; a step of {}", chosen.candidate.name(),
                                duration(chosen.step_seconds));
  if (!comparisons.empty()) out += fmt::format(" is {}", fmt::join(comparisons, ", and "));
  if (recommendation.fastest != recommendation.chosen) {
    const TunerRow& fastest = rows[recommendation.fastest];
    out += fmt::format(
        "\n{} is as fast within {:g} %, but {:.1f} % of its tokens cross nodes, not {:.1f} %",
        fastest.candidate.name(), 100 * kTunerTolerance, 100 * fastest.crossed_share,
        100 * chosen.crossed_share);
  }
  return out + '\n';
}

/// What to give to the program and the library.
std::string usage(const Placement& chosen, const TuneReport& report) {
  if (!chosen.topology) return "use: no topology; in code BalancerOptions{.balance = false}\n";
  return fmt::format(
      "use: {0} --topology {1} --group-size {2}\n"
      "in code: .topology = Topology::parse(\"{1}\")\n",
      report.simulate, chosen.name(), report.options.ranks);
}

nlohmann::ordered_json to_json(const TunerSample& sample) {
  return {{"steps", sample.steps},
          {"sequences", sample.sequences},
          {"tokens", sample.tokens},
          {"longest", sample.longest},
          {"max_over_mean", sample.max_over_mean},
          {"worst_max_over_mean", sample.worst_max_over_mean},
          {"ideal_seconds", sample.ideal_seconds},
          {"home_seconds", sample.home_seconds}};
}

nlohmann::ordered_json to_json(const TunerRow& row, std::int64_t steps) {
  nlohmann::ordered_json out = {{"topology", row.candidate.name()},
                                {"refused_steps", row.refused_steps}};
  if (row.refused_steps > 0) out["refusal"] = row.refusal;
  if (row.refused_steps == steps) return out;
  out.update({{"step_seconds", row.step_seconds},
              {"step_over_ideal", row.step_over_ideal},
              {"worst_step_over_ideal", row.worst_step_over_ideal},
              {"max_over_mean", row.max_over_mean},
              {"worst_max_over_mean", row.worst_max_over_mean},
              {"moved_share", row.moved_share},
              {"crossed_share", row.crossed_share},
              {"ulysses_share", row.ulysses_share},
              {"max_tokens", row.max_tokens},
              {"tokens_max_over_mean", row.tokens_max_over_mean},
              {"max_attention_tokens", row.max_attention_tokens},
              {"attention_tokens_max_over_mean", row.attention_tokens_max_over_mean},
              {"plan_seconds", row.plan_seconds}});
  return out;
}

nlohmann::ordered_json cap_json(std::int64_t cap) {
  return cap == PlanRequest::kNoCap ? nlohmann::ordered_json() : nlohmann::ordered_json(cap);
}

}  // namespace

std::string tune_table(const TuneReport& report) {
  const Recommendation& recommendation = report.recommendation;
  const Placement& chosen = report.result.rows[recommendation.chosen].candidate;
  return describe_sample(report) + '\n' + table(report.result, recommendation.chosen) + '\n' +
         recommended(report) + usage(chosen, report);
}

std::string tune_json(const TuneReport& report) {
  const TunerOptions& options = report.options;
  const std::vector<TunerRow>& rows = report.result.rows;
  const Recommendation& recommendation = report.recommendation;
  nlohmann::ordered_json out = {
      {"data", report.data},
      {"seed", report.seed},
      {"ranks", options.ranks},
      {"d_model", options.cost.d_model()},
      {"heads", options.heads},
      {"gamma", report.gamma},
      {"machine", machine_json(options.machine)},
      {"max_tokens_per_rank", cap_json(options.max_tokens_per_rank)},  // null without a cap
      {"max_attention_tokens_per_rank", cap_json(options.max_attention_tokens_per_rank)},
      {"sample", to_json(report.result.sample)}};
  auto& candidates = out["candidates"] = nlohmann::ordered_json::array();
  for (const TunerRow& row : rows) candidates.push_back(to_json(row, options.steps));
  out["recommended"] = rows[recommendation.chosen].candidate.name();
  out["fastest"] = rows[recommendation.fastest].candidate.name();
  auto& next = out["next_fixed"] = nullptr;
  if (recommendation.next_fixed) next = rows[*recommendation.next_fixed].candidate.name();
  return out.dump(2) + '\n';
}

}  // namespace knapformer::cli
