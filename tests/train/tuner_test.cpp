// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "knapformer/train/tuner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "knapformer/plan/error.hpp"
#include "support/scratch_folder.hpp"

namespace knapformer {
namespace {

using test::expect_message;
using test::message_of;
using Lengths = std::vector<std::int64_t>;
using Step = std::vector<Lengths>;  // of every rank

constexpr std::string_view kJoint =
    "g8b4i256f1s0,g2b5i512f1s0,g2b5i1024f1s0,g4b1i2048f1s0,g1b10i256f4s0,g3b1i512f4s0,"
    "g8b2i256f85s1,g4b1i512f85s1";

/// Steps written down; they repeat.
class WrittenSource : public DataSource {
 public:
  WrittenSource(std::initializer_list<Step> steps) : steps_(steps) {}
  Lengths lengths(std::int64_t step, std::int64_t rank) const override {
    return steps_.at(step % std::ssize(steps_)).at(rank);
  }
  std::string describe() const override { return "written down"; }

 private:
  std::vector<Step> steps_;
};

std::vector<Placement> candidates(std::initializer_list<std::string_view> names) {
  std::vector<Placement> out;
  for (std::string_view name : names) out.push_back(Placement::parse(name));
  return out;
}

std::vector<std::string> names(const std::vector<Placement>& candidates) {
  std::vector<std::string> out;
  for (const Placement& candidate : candidates) out.push_back(candidate.name());
  return out;
}

PlanReport planned(const DataSource& data, std::int64_t step, const TunerOptions& options,
                   const Placement& candidate) {
  Lengths lengths, offsets{0};
  for (std::int64_t rank = 0; rank < options.ranks; ++rank) {
    for (const std::int64_t n : data.lengths(step, rank)) lengths.push_back(n);
    offsets.push_back(std::ssize(lengths));
  }
  const Topology topology = candidate.topology.value_or(Topology::singles(options.ranks));
  const PlanRequest request{.topology = topology,
                            .cost = options.cost,
                            .heads = options.heads,
                            .lengths = lengths,
                            .offsets = offsets,
                            .machine = options.machine,
                            .budget = options.budget};
  return (candidate.topology ? make_plan(request) : make_home_plan(request)).report();
}

/// The row that the definitions in the header give, from plans made here.
void expect_row(const TunerRow& row, const DataSource& data, const TunerOptions& options) {
  double seconds = 0, over_ideal = 0, wir = 0, tokens = 0, moved = 0, crossed = 0, ulysses = 0;
  double worst = 0, worst_wir = 0, token_ratio = 0, attention_ratio = 0, most = 0, attention = 0;
  for (std::int64_t step = 0; step < options.steps; ++step) {
    const PlanReport report = planned(data, step, options, row.candidate);
    const double total = static_cast<double>(report.total_tokens);
    const double mean = total / static_cast<double>(options.ranks);
    seconds += report.step_seconds;
    over_ideal += report.step_over_ideal;
    wir += report.max_over_mean;
    tokens += total;
    moved += static_cast<double>(report.moved_tokens);
    crossed += static_cast<double>(report.crossed_tokens);
    ulysses += report.ulysses_tokens;
    worst = std::max(worst, report.step_over_ideal);
    worst_wir = std::max(worst_wir, report.max_over_mean);
    for (const std::int64_t n : report.tokens_after) {
      most = std::max(most, static_cast<double>(n));
      token_ratio = std::max(token_ratio, static_cast<double>(n) / mean);
    }
    for (const double n : report.attention_tokens) {
      attention = std::max(attention, n);
      attention_ratio = std::max(attention_ratio, n / mean);
    }
  }
  const double steps = static_cast<double>(options.steps);
  EXPECT_EQ(row.refused_steps, 0);
  EXPECT_DOUBLE_EQ(row.step_seconds, seconds / steps);
  EXPECT_DOUBLE_EQ(row.step_over_ideal, over_ideal / steps);
  EXPECT_DOUBLE_EQ(row.worst_step_over_ideal, worst);
  EXPECT_DOUBLE_EQ(row.max_over_mean, wir / steps);
  EXPECT_DOUBLE_EQ(row.worst_max_over_mean, worst_wir);
  EXPECT_DOUBLE_EQ(row.moved_share, moved / tokens);
  EXPECT_DOUBLE_EQ(row.crossed_share, crossed / tokens);
  EXPECT_DOUBLE_EQ(row.ulysses_share, ulysses / tokens);
  EXPECT_EQ(static_cast<double>(row.max_tokens), most);
  EXPECT_DOUBLE_EQ(row.tokens_max_over_mean, token_ratio);
  EXPECT_DOUBLE_EQ(row.max_attention_tokens, attention);
  EXPECT_DOUBLE_EQ(row.attention_tokens_max_over_mean, attention_ratio);
  EXPECT_GT(row.plan_seconds, 0);
}

TEST(Tuner, RowsAreThoseOfThePlansOfTheSameSteps) {
  const auto data = make_code_source(kJoint, {}, 32, 5);
  TunerOptions options{.heads = 24, .ranks = 32, .steps = 4};
  for (const bool other_machine : {false, true}) {
    SCOPED_TRACE(other_machine);
    if (other_machine) {
      options.machine = {.ranks_per_node = 4, .bandwidth_between = 10e9, .layers = 12};
      options.machine.speeds.assign(32, 1);
      options.machine.speeds[3] = 2;
      options.cost = CostModel::transformer(1024, 1.0, 100);
      options.budget = 0;
    }
    options.candidates = default_candidates(32, 24, options.machine);
    std::int64_t calls = 0;
    const TunerResult result = tune(*data, options, [&] { ++calls; });
    EXPECT_EQ(calls, 4);
    ASSERT_EQ(result.rows.size(), options.candidates.size());
    for (std::size_t i = 0; i < result.rows.size(); ++i) {
      SCOPED_TRACE(options.candidates[i].name());
      EXPECT_EQ(result.rows[i].candidate.name(), options.candidates[i].name());
      expect_row(result.rows[i], *data, options);
    }
  }
}

TEST(Tuner, TheSampleIsWhatWasPlanned) {
  const auto data = make_code_source(kJoint, {}, 32, 5);
  const TunerOptions options{
      .candidates = candidates({"g4n8"}), .heads = 24, .ranks = 32, .steps = 3};
  const TunerSample sample = tune(*data, options).sample;
  std::int64_t sequences = 0, tokens = 0, longest = 0;
  double wir = 0, worst = 0, ideal = 0, home = 0;
  for (std::int64_t step = 0; step < 3; ++step) {
    for (std::int64_t rank = 0; rank < 32; ++rank) {
      for (const std::int64_t n : data->lengths(step, rank)) {
        ++sequences;
        tokens += n;
        longest = std::max(longest, n);
      }
    }
    const PlanReport report = planned(*data, step, options, options.candidates[0]);
    wir += report.max_over_mean_before / 3;
    worst = std::max(worst, report.max_over_mean_before);
    ideal += report.ideal_seconds / 3;
    home += report.step_seconds_before / 3;
  }
  EXPECT_EQ(sample.steps, 3);
  EXPECT_EQ(sample.sequences, sequences);
  EXPECT_EQ(sample.tokens, tokens);
  EXPECT_EQ(sample.longest, longest);
  EXPECT_NEAR(sample.max_over_mean, wir, 1e-12 * wir);
  EXPECT_DOUBLE_EQ(sample.worst_max_over_mean, worst);
  EXPECT_NEAR(sample.ideal_seconds, ideal, 1e-12 * ideal);
  EXPECT_NEAR(sample.home_seconds, home, 1e-12 * home);
}

TEST(Tuner, DefaultCandidates) {
  using Names = std::vector<std::string>;
  const auto of = [](std::int64_t ranks, std::int64_t heads, std::int64_t node) {
    return names(default_candidates(ranks, heads, {.ranks_per_node = node}));
  };
  EXPECT_EQ(of(32, 24, 8), (Names{"home", "elastic", "elastic2", "elastic4", "elastic8", "g1n32",
                                  "g2n16", "g4n8", "g8n4"}));
  EXPECT_EQ(of(8, 24, 8),
            (Names{"home", "elastic", "elastic2", "elastic4", "g1n8", "g2n4", "g4n2", "g8n1"}))
      << "elastic8 would say no more than elastic";
  EXPECT_EQ(of(48, 6, 32), (Names{"home", "elastic", "elastic2", "elastic4", "g1n48", "g2n24",
                                  "g3n16", "g4n12", "g6n8"}))
      << "no more ranks than heads";
  EXPECT_EQ(of(64, 64, 64), (Names{"home", "elastic", "elastic2", "elastic4", "g1n64", "g2n32",
                                   "g4n16", "g8n8", "g16n4"}))
      << "no more than 16";
  EXPECT_EQ(of(6, 24, 4),
            (Names{"home", "elastic", "elastic2", "elastic4", "g1n6", "g2n3", "g3n2"}));
  EXPECT_EQ(of(1, 24, 8), (Names{"home", "elastic", "g1n1"}));
}

/// Twelve equal sequences on the first of four ranks.
WrittenSource crowded() { return {Step{Lengths(12, 1000), {}, {}, {}}}; }

TEST(Tuner, CertainWinner) {
  const TunerOptions options{.candidates = candidates({"home", "g4n1", "g1n4"}),
                             .heads = 4,
                             .ranks = 4,
                             .steps = 2,
                             .machine = {.ranks_per_node = 2, .latency = 1e-3}};
  const TunerResult result = tune(crowded(), options);
  EXPECT_DOUBLE_EQ(result.sample.max_over_mean, 4);
  EXPECT_DOUBLE_EQ(result.rows[0].step_over_ideal, 4);
  EXPECT_DOUBLE_EQ(result.rows[2].max_over_mean, 1);
  const Recommendation recommendation = recommend(result.rows);
  EXPECT_EQ(recommendation.chosen, 2) << "g4n1 pays for attention in every layer";
  EXPECT_EQ(recommendation.fastest, 2);
  EXPECT_EQ(recommendation.next_fixed, 1);
}

TEST(Tuner, BalancedDataStaysHome) {
  const WrittenSource even{Step(4, Lengths(3, 1000))};
  TunerOptions options{.heads = 4, .ranks = 4, .steps = 2};
  options.candidates = default_candidates(4, 4, options.machine);
  const TunerResult result = tune(even, options);
  EXPECT_EQ(result.rows[recommend(result.rows).chosen].candidate.name(), "home");
}

TEST(Tuner, EmptyStepsAreOrdinary) {
  const WrittenSource empty{Step(4), Step{{0}, {}, {}, {0, 0}}};
  TunerOptions options{.heads = 4, .ranks = 4, .steps = 2};
  options.candidates = default_candidates(4, 4, options.machine);
  const TunerResult result = tune(empty, options);
  EXPECT_EQ(result.sample.sequences, 3);
  for (const TunerRow& row : result.rows) {
    EXPECT_EQ(row.step_over_ideal, 1);
    EXPECT_EQ(row.moved_share, 0);
    EXPECT_EQ(row.max_tokens, 0);
  }
  EXPECT_NO_THROW(recommend(result.rows));
}

TEST(Tuner, CountsTheStepsThatTheCapsRuleOut) {
  // In steps 0 and 2 a sequence fits only when two ranks share it.
  const WrittenSource data{Step{{1000}, {}}, Step{{500}, {500}}};
  TunerOptions options{
      .candidates = candidates({"home", "g1n2", "g2n1"}), .heads = 2, .ranks = 2, .steps = 3};
  for (const bool attention : {false, true}) {
    SCOPED_TRACE(attention);
    options.max_tokens_per_rank = attention ? PlanRequest::kNoCap : 600;
    options.max_attention_tokens_per_rank = attention ? 600 : PlanRequest::kNoCap;
    const TunerResult result = tune(data, options);
    EXPECT_EQ(result.sample.longest, 1000);
    EXPECT_EQ(result.sample.tokens, 3000);
    for (const std::size_t i : {0, 1}) {
      EXPECT_EQ(result.rows[i].refused_steps, 2);
      expect_message(result.rows[i].refusal, {"600"});
      EXPECT_EQ(result.rows[i].max_tokens, 500) << "figures are of the steps that were planned";
      EXPECT_DOUBLE_EQ(result.rows[i].max_over_mean, 1);
    }
    EXPECT_EQ(result.rows[2].refused_steps, 0);
    EXPECT_EQ(result.rows[2].max_tokens, 500);
    EXPECT_EQ(recommend(result.rows).chosen, 2);
    EXPECT_EQ(recommend(result.rows).next_fixed, std::nullopt);
  }
}

TEST(Tuner, NothingKeepsTheCaps) {
  const WrittenSource data{Step{{1000}, {}}, Step{{100}, {}}};
  const TunerOptions options{.candidates = candidates({"home", "g2n1"}),
                             .heads = 2,
                             .ranks = 2,
                             .steps = 2,
                             .max_tokens_per_rank = 499};
  const TunerResult result = tune(data, options);
  EXPECT_EQ(result.rows[1].refused_steps, 1);
  expect_message(message_of<Error>([&] { recommend(result.rows); }),
                 {"no candidate", "home", "on 1", "1000", "499"});
}

TEST(Tuner, RefusesNonsense) {
  const WrittenSource data{Step{{1000}, {}}};
  const TunerOptions good{.candidates = candidates({"g1n2"}), .heads = 2, .ranks = 2, .steps = 1};
  const auto refused = [&](const auto& spoil, std::initializer_list<std::string_view> parts) {
    TunerOptions bad = good;
    spoil(bad);
    expect_message(message_of<Error>([&] { tune(data, bad); }), parts);
  };
  EXPECT_NO_THROW(tune(data, good));
  refused([](auto& o) { o.candidates.clear(); }, {"nothing to compare"});
  refused([](auto& o) { o.candidates = candidates({"g1n2", "g4n2"}); }, {"g4n2", "8 ranks", "2"});
  refused([](auto& o) { o.steps = 0; }, {"0 steps"});
  refused([](auto& o) { o.ranks = 0; }, {"0 ranks"});
  refused([](auto& o) { o.ranks = std::int64_t{1} << 40; }, {"1099511627776 ranks"});
  refused([](auto& o) { o.max_tokens_per_rank = -2; }, {"cap of -2"});
  refused([](auto& o) { o.max_attention_tokens_per_rank = -1; }, {"cap of -1"});
  refused([](auto& o) { o.heads = 0; }, {"heads", "0"});
  // With caps too, what is not about them is an error and not a refused step.
  refused(
      [](auto& o) {
        o.max_tokens_per_rank = 10;
        o.machine.speeds = {1, 1, 1};
      },
      {"3 speeds", "2 ranks"});
  expect_message(message_of<Error>([] { Placement::parse("g4n8x"); }), {"g4n8x"});
  expect_message(message_of<Error>([] { recommend({}); }), {"nothing to recommend"});
}

TunerRow row(std::string_view name, double seconds, double crossed, std::int64_t refused = 0) {
  return {.candidate = Placement::parse(name),
          .refused_steps = refused,
          .step_seconds = seconds,
          .crossed_share = crossed};
}

TEST(Recommendation, TheShortestStepWins) {
  const TunerRow rows[] = {row("home", 4, 0), row("g4n2", 1.2, 0), row("elastic", 1.0, 0.9),
                           row("g8n1", 1.1, 0.5)};
  const Recommendation out = recommend(rows);
  EXPECT_EQ(out.chosen, 2);
  EXPECT_EQ(out.fastest, 2);
  EXPECT_EQ(out.next_fixed, 3);
}

TEST(Recommendation, OfEquallyGoodOnesTheOneThatCrossesLess) {
  TunerRow rows[] = {row("g1n8", 1.0015, 0.2), row("elastic", 1.0, 0.4), row("g8n1", 1.0025, 0),
                     row("g2n4", 1.001, 0.3)};
  EXPECT_EQ(recommend(rows).chosen, 0);
  EXPECT_EQ(recommend(rows).fastest, 1);
  EXPECT_EQ(recommend(rows).next_fixed, 3) << "the fastest other one, however many tokens cross";
  rows[0].crossed_share = rows[3].crossed_share = 0.4;
  EXPECT_EQ(recommend(rows).chosen, 1) << "equal traffic: the shortest";
  rows[3].step_seconds = 1.0;
  EXPECT_EQ(recommend(rows).chosen, 1) << "equal in everything: the first";
  rows[1].moved_share = 0.1;
  EXPECT_EQ(recommend(rows).chosen, 3) << "equal but for tokens moved within nodes";
}

TEST(Recommendation, NeverOneThatTheCapsRuleOut) {
  const TunerRow rows[] = {row("elastic", 1.0, 0, 1), row("g1n8", 1.0, 0, 50), row("g2n4", 3, 1)};
  const Recommendation out = recommend(rows);
  EXPECT_EQ(out.chosen, 2);
  EXPECT_EQ(out.fastest, 2);
  EXPECT_EQ(out.next_fixed, std::nullopt);
}

TEST(CodeSource, RanksOfCodes) {
  EXPECT_EQ(ranks_of_codes(kJoint), 32);
  EXPECT_EQ(ranks_of_codes("g3b1i256f1s0"), 3);
  expect_message(message_of<Error>([] { ranks_of_codes("x7"); }), {"x7"});
  expect_message(message_of<Error>([] { ranks_of_codes("g1b1i256f1s0", {0, 1}); }), {"patch"});
}

}  // namespace
}  // namespace knapformer
