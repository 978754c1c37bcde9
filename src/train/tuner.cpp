// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "knapformer/train/tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "knapformer/plan/error.hpp"
#include "plan/message.hpp"
#include "train/text.hpp"

namespace knapformer {
namespace {

/// The sequences of a step, as a planner takes them.
struct Step {
  Step(const DataSource& data, std::int64_t step, std::int64_t ranks) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::vector<std::int64_t> loaded = data.lengths(step, rank);
      lengths.insert(lengths.end(), loaded.begin(), loaded.end());
      offsets.push_back(std::ssize(lengths));
    }
  }

  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> offsets{0};
};

PlanRequest request_for(const Step& step, const Topology& topology, const TunerOptions& options) {
  return {.topology = topology,
          .cost = options.cost,
          .heads = options.heads,
          .lengths = step.lengths,
          .offsets = step.offsets,
          .machine = options.machine,
          .max_tokens_per_rank = options.max_tokens_per_rank,
          .max_attention_tokens_per_rank = options.max_attention_tokens_per_rank,
          .budget = options.budget};
}

bool has_caps(const TunerOptions& options) {
  return options.max_tokens_per_rank != PlanRequest::kNoCap ||
         options.max_attention_tokens_per_rank != PlanRequest::kNoCap;
}

double largest(const std::vector<double>& values) { return *std::ranges::max_element(values); }

std::int64_t largest(const std::vector<std::int64_t>& values) {
  return *std::ranges::max_element(values);
}

/// Throws where a plan breaks the caps, which a home plan does not heed.
void require_caps(const PlanReport& report, const TunerOptions& options) {
  const std::int64_t tokens = largest(report.tokens_after);
  if (tokens > options.max_tokens_per_rank) {
    throw Error(fmt::format("a rank has {}, above the cap of {}", plural(tokens, "token"),
                            options.max_tokens_per_rank));
  }
  const double attention = largest(report.attention_tokens);
  if (attention > static_cast<double>(options.max_attention_tokens_per_rank)) {
    throw Error(fmt::format("a rank has {:.0f} attention-resident tokens, above the cap of {}",
                            attention, options.max_attention_tokens_per_rank));
  }
}

double over(double part, double whole) { return whole > 0 ? part / whole : 0; }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

/// Sums up one candidate's plans.
class Tally {
 public:
  explicit Tally(Placement candidate) { row_.candidate = std::move(candidate); }

  const Placement& candidate() const { return row_.candidate; }

  void refuse(const std::string& why) {
    if (row_.refused_steps++ == 0) row_.refusal = why;
  }

  void add(const PlanReport& report) {
    const double tokens = static_cast<double>(report.total_tokens);
    const double mean_tokens = tokens / static_cast<double>(report.tokens_after.size());
    const std::int64_t most = largest(report.tokens_after);
    const double most_attention = largest(report.attention_tokens);
    row_.step_seconds += report.step_seconds;
    row_.worst_step_over_ideal = std::max(row_.worst_step_over_ideal, report.step_over_ideal);
    row_.worst_max_over_mean = std::max(row_.worst_max_over_mean, report.max_over_mean);
    row_.moved_share += static_cast<double>(report.moved_tokens);
    row_.crossed_share += static_cast<double>(report.crossed_tokens);
    row_.ulysses_share += report.ulysses_tokens;
    row_.max_tokens = std::max(row_.max_tokens, most);
    row_.tokens_max_over_mean =
        std::max(row_.tokens_max_over_mean, over(static_cast<double>(most), mean_tokens));
    row_.max_attention_tokens = std::max(row_.max_attention_tokens, most_attention);
    row_.attention_tokens_max_over_mean =
        std::max(row_.attention_tokens_max_over_mean, over(most_attention, mean_tokens));
    tokens_ += tokens;
    step_over_ideal_ += report.step_over_ideal;
    max_over_mean_ += report.max_over_mean;
    plan_seconds_.push_back(report.plan_seconds);
  }

  TunerRow row() const {
    TunerRow row = row_;
    if (plan_seconds_.empty()) return row;
    const double steps = static_cast<double>(plan_seconds_.size());
    row.step_seconds /= steps;
    row.step_over_ideal = step_over_ideal_ / steps;
    row.max_over_mean = max_over_mean_ / steps;
    row.moved_share = over(row.moved_share, tokens_);
    row.crossed_share = over(row.crossed_share, tokens_);
    row.ulysses_share = over(row.ulysses_share, tokens_);
    row.plan_seconds = median(plan_seconds_);
    return row;
  }

 private:
  TunerRow row_;  // sums in place of means until the end
  double tokens_ = 0;
  double step_over_ideal_ = 0;
  double max_over_mean_ = 0;
  std::vector<double> plan_seconds_;
};

/// Plans a step as the candidate would. What `home`, the plan that only numbers out of range
/// refuse, has passed, only the caps can refuse.
void plan_step(const Step& step, const Plan& home, const TunerOptions& options, Tally& tally) {
  const std::optional<Topology>& topology = tally.candidate().topology;
  try {
    const Plan plan = topology ? make_plan(request_for(step, *topology, options)) : home;
    require_caps(plan.report(), options);
    tally.add(plan.report());
  } catch (const Error& error) {
    if (!has_caps(options)) throw;
    tally.refuse(error.what());
  }
}

void add(const Step& step, const PlanReport& home, TunerSample& sample) {
  ++sample.steps;
  sample.sequences += std::ssize(step.lengths);
  sample.tokens += home.total_tokens;
  for (const std::int64_t n : step.lengths) sample.longest = std::max(sample.longest, n);
  sample.worst_max_over_mean = std::max(sample.worst_max_over_mean, home.max_over_mean);
  // A running mean, so that the figures are means at every step.
  const auto average = [&](double& mean, double value) {
    mean += (value - mean) / static_cast<double>(sample.steps);
  };
  average(sample.max_over_mean, home.max_over_mean);
  average(sample.ideal_seconds, home.ideal_seconds);
  average(sample.home_seconds, home.step_seconds);
}

void check(const TunerOptions& options) {
  if (options.ranks < 1 || options.ranks > Topology::kAnyDegree) {
    throw Error(fmt::format("{} ranks in the balancing group; give 1 to {}", options.ranks,
                            Topology::kAnyDegree));
  }
  if (options.candidates.empty()) throw Error("there is nothing to compare; give a topology");
  if (options.steps < 1) throw Error(fmt::format("{} steps; give 1 or more", options.steps));
  for (const std::int64_t cap :
       {options.max_tokens_per_rank, options.max_attention_tokens_per_rank}) {
    if (cap < 0) throw Error(fmt::format("a cap of {} tokens per rank; give 0 or more", cap));
  }
  for (const Placement& candidate : options.candidates) {
    const std::optional<Topology>& topology = candidate.topology;
    if (!topology || topology->is_elastic() || topology->ranks() == options.ranks) continue;
    throw Error(fmt::format("topology {} is for {}, but the balancing group has {}",
                            topology->name(), plural(topology->ranks(), "rank"), options.ranks));
  }
}

[[noreturn]] void fail_by_caps(std::span<const TunerRow> rows) {
  const TunerRow& least = *std::ranges::min_element(rows, {}, &TunerRow::refused_steps);
  throw Error(
      fmt::format("no candidate keeps the caps on every step; {} fails least often, on {}, first "
                  "because: {}; raise the caps, balance over more ranks, or try bags of more ranks",
                  least.candidate.name(), least.refused_steps, least.refusal));
}

}  // namespace

Placement Placement::parse(std::string_view text) {
  if (trimmed(text) == kHome) return {};
  try {
    return {Topology::parse(text)};
  } catch (const Error& error) {
    throw Error(fmt::format("{}; or {}, which is no balancing", error.what(), kHome));
  }
}

std::vector<Placement> default_candidates(std::int64_t ranks, std::int64_t heads,
                                          const Machine& machine) {
  constexpr std::int64_t kLargestBag = 16;
  std::vector<Placement> out{{}, {Topology::elastic()}};
  const std::int64_t node = machine.ranks_per_node;
  for (const std::int64_t degree : std::set<std::int64_t>{2, 4, node}) {
    if (degree < std::min(ranks, heads)) out.push_back({Topology::elastic(degree)});
  }
  for (std::int64_t degree = 1; degree <= std::min({ranks, heads, node, kLargestBag}); ++degree) {
    if (ranks % degree != 0) continue;
    out.push_back({Topology::parse(fmt::format("g{}n{}", degree, ranks / degree))});
  }
  return out;
}

TunerResult tune(const DataSource& data, const TunerOptions& options,
                 const std::function<void()>& on_step) {
  check(options);
  std::vector<Tally> tallies(options.candidates.begin(), options.candidates.end());
  TunerResult result;
  const Topology any = Topology::elastic();
  for (std::int64_t index = 0; index < options.steps; ++index) {
    const Step step(data, index, options.ranks);
    const Plan home = make_home_plan(request_for(step, any, options));
    add(step, home.report(), result.sample);
    for (Tally& tally : tallies) plan_step(step, home, options, tally);
    if (on_step) on_step();
  }
  for (const Tally& tally : tallies) result.rows.push_back(tally.row());
  return result;
}

Recommendation recommend(std::span<const TunerRow> rows) {
  std::vector<std::size_t> fit;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].refused_steps == 0) fit.push_back(i);
  }
  if (rows.empty()) throw Error("there is nothing to recommend: no candidate was compared");
  if (fit.empty()) fail_by_caps(rows);

  const auto step = [&](std::size_t i) { return rows[i].step_seconds; };
  Recommendation out;
  out.fastest = *std::ranges::min_element(fit, {}, step);
  const double close = step(out.fastest) * (1 + kTunerTolerance);
  out.chosen = out.fastest;
  for (const std::size_t i : fit) {
    const auto rating = [&](std::size_t row) {
      return std::tuple(rows[row].crossed_share, step(row), rows[row].moved_share, row);
    };
    if (step(i) <= close && rating(i) < rating(out.chosen)) out.chosen = i;
  }
  for (const std::size_t i : fit) {
    const std::optional<Topology>& topology = rows[i].candidate.topology;
    if (i == out.chosen || !topology || topology->is_elastic()) continue;
    if (!out.next_fixed || step(i) < step(*out.next_fixed)) out.next_fixed = i;
  }
  return out;
}

}  // namespace knapformer
