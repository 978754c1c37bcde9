// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <cmath>
#include <functional>
#include <set>

#include "plan/group.hpp"

namespace knapformer {
namespace {

// Two ranks, four heads. Sequence 0: 10 tokens of rank 0, split unevenly; 1: empty; 2: 5 tokens of
// rank 1, moved.
struct Parts {
  std::int64_t ranks = 2;
  std::int64_t heads = 4;
  std::vector<std::int64_t> homes{0, 1, 1};
  std::vector<std::int64_t> lengths{10, 0, 5};
  std::vector<std::int64_t> offsets{0, 2, 2, 3};
  std::vector<Chunk> chunks{{1, 0, 7, 0, 3}, {0, 7, 3, 3, 1}, {0, 0, 5, 0, 4}};
  std::vector<std::int64_t> costs{};
  CostModel cost = CostModel::transformer(100, 2, 30);

  Plan plan(double lower_bound = 0) const {
    return Plan(ranks, heads, cost, homes, lengths, offsets, chunks, costs, {},
                {.topology = lower_bound});
  }
};

TEST(Plan, GivesBackWhatItHolds) {
  const Plan plan = Parts().plan();
  EXPECT_EQ(plan.ranks(), 2);
  EXPECT_EQ(plan.heads(), 4);
  EXPECT_EQ(plan.sequences(), 3);
  EXPECT_EQ(plan.all_chunks().size(), 3u);
  EXPECT_EQ(plan.chunks(0).size(), 2u);
  EXPECT_TRUE(plan.chunks(1).empty());
  EXPECT_EQ(plan.chunks(2).front(), (Chunk{0, 0, 5, 0, 4}));
  EXPECT_EQ(Plan(plan).all_chunks().data(), plan.all_chunks().data()) << "copies share the memory";
}

TEST(Plan, ReportIsRecomputedFromTheChunks) {
  const PlanReport report = Parts().plan(5000).report();
  // constant + 6 d L + gamma L^2: 30 + 6000 + 200, and 30 + 3000 + 50.
  EXPECT_EQ(report.work_before, (std::vector<double>{6230, 3080}));
  // Rank 0: 3 tokens and a quarter of the heads of the first, all of the other.
  EXPECT_EQ(report.work_after,
            (std::vector<double>{1800 + 230 / 4.0 + 3080, 4200 + 230 * 3 / 4.0}));
  EXPECT_EQ(report.tokens_before, (std::vector<std::int64_t>{10, 5}));
  EXPECT_EQ(report.tokens_after, (std::vector<std::int64_t>{8, 7}));
  EXPECT_EQ(report.attention_tokens, (std::vector<double>{2.5 + 5, 7.5}));
  EXPECT_DOUBLE_EQ(report.max_over_mean_before, 6230 / 4655.0);
  EXPECT_DOUBLE_EQ(report.max_over_mean, 4937.5 / 4655);
  EXPECT_DOUBLE_EQ(report.max_over_min_before, 6230 / 3080.0);
  EXPECT_DOUBLE_EQ(report.max_over_min, 4937.5 / 4372.5);
  EXPECT_EQ(report.total_tokens, 15);
  EXPECT_EQ(report.moved_tokens, 7 + 5);
  EXPECT_DOUBLE_EQ(report.ulysses_tokens, 7 * 0.25 + 3 * 0.75);
  EXPECT_EQ(report.lower_bound, 5000);
  EXPECT_DOUBLE_EQ(report.lower_bound_gap, 4937.5 / 5000 - 1);
  EXPECT_GT(report.plan_seconds, 0);
}

TEST(Plan, CostsOfTheCallerGoWithTheTokens) {
  Parts parts;
  parts.costs = {1000, 99, 50};  // the second has no tokens, so no work
  const PlanReport report = parts.plan().report();
  EXPECT_EQ(report.work_before, (std::vector<double>{1000, 50}));
  EXPECT_NEAR(report.work_after[0], 300 + 50, 1e-4);
  EXPECT_NEAR(report.work_after[1], 700, 1e-4);
  EXPECT_EQ(report.work_after[0] + report.work_after[1], 1050);
}

TEST(Plan, RatiosOfRanksWithoutWork) {
  Parts parts;
  parts.homes = {0};
  parts.lengths = {10};
  parts.offsets = {0, 1};
  parts.chunks = {{0, 0, 10, 0, 4}};
  EXPECT_TRUE(std::isinf(parts.plan().report().max_over_min));
  EXPECT_DOUBLE_EQ(parts.plan().max_over_mean(), 2);
  parts.lengths = {0};
  parts.offsets = {0, 0};
  parts.chunks = {};
  const PlanReport report = parts.plan().report();
  EXPECT_EQ(report.max_over_min, 1);
  EXPECT_EQ(report.max_over_mean, 1);
  EXPECT_EQ(report.max_over_mean_before, 1);
  EXPECT_EQ(report.lower_bound_gap, 0);
}

TEST(Plan, HashIsOfEverythingThatRanksMustAgreeOn) {
  std::set<std::uint64_t> hashes;
  const auto add = [&](const std::function<void(Parts&)>& change) {
    Parts parts;
    change(parts);
    EXPECT_TRUE(hashes.insert(parts.plan().hash()).second);
    EXPECT_EQ(parts.plan().hash(), parts.plan().hash());
  };
  add([](Parts&) {});
  add([](Parts& p) { p.ranks = 3; });
  add([](Parts& p) { p.homes[1] = 0; });
  add([](Parts& p) { p.lengths[2] = 6, p.chunks[2].tokens = 6; });
  add([](Parts& p) { p.chunks[2].rank = 1; });
  add([](Parts& p) {
    p.chunks[0].tokens = 6, p.chunks[1].first_token = 6, p.chunks[1].tokens = 4;
  });
  add([](Parts& p) { p.chunks[0].heads = 2, p.chunks[1].first_head = 2, p.chunks[1].heads = 2; });
  add([](Parts& p) { ++p.heads, ++p.chunks[1].heads, ++p.chunks[2].heads; });
  Parts other_cost;
  other_cost.cost = CostModel::transformer(1);
  EXPECT_EQ(other_cost.plan().hash(), Parts().plan().hash());
}

TEST(Plan, RejectsBrokenInvariantsAndNamesTheSequence) {
  const auto expect = [](const char* part, const std::function<void(Parts&)>& change) {
    Parts parts;
    change(parts);
    EXPECT_ERROR(parts.plan(), part);
  };
  expect("at least one rank", [](Parts& p) { p.ranks = 0; });
  expect("number of heads", [](Parts& p) { p.heads = 0; });
  expect("number of heads", [](Parts& p) { p.heads = Plan::kMaxHeads + 1; });
  expect("as many lengths", [](Parts& p) { p.lengths.pop_back(); });
  expect("one chunk offset more", [](Parts& p) { p.offsets.pop_back(); });
  expect("offsets must rise", [](Parts& p) { p.offsets = {0, 2, 1, 3}; });
  expect("offsets must rise", [](Parts& p) { p.offsets = {1, 2, 2, 3}; });
  expect("offsets must rise", [](Parts& p) { p.offsets.back() = 2; });
  expect("sequence 2 (home 2, 5 tokens): its home", [](Parts& p) { p.homes[2] = 2; });
  expect("its home is", [](Parts& p) { p.homes[0] = -1; });
  expect("sequence 1 (home 0, 0 tokens): it comes after", [](Parts& p) { p.homes = {1, 0, 1}; });
  expect("its length is out of range", [](Parts& p) { p.lengths[2] = -5; });
  expect("its length is out of range", [](Parts& p) { p.lengths[2] = CostModel::kMaxLength + 1; });
  expect("chunks but no tokens", [](Parts& p) { p.lengths[2] = 0; });
  expect("fewer tokens than it has", [](Parts& p) { p.lengths[1] = 1; });
  expect("is on no rank", [](Parts& p) { p.chunks[1].rank = 2; });
  expect("is on no rank", [](Parts& p) { p.chunks[1].rank = -1; });
  expect("twice in its bag", [](Parts& p) { p.chunks[1].rank = 1; });
  expect("gap in its tokens", [](Parts& p) { p.chunks[1].first_token = 6; });
  expect("its head ranges", [](Parts& p) { p.chunks[1].first_head = 2; });
  expect("no tokens or no heads", [](Parts& p) { p.chunks[0].tokens = 0; });
  expect("no tokens or no heads", [](Parts& p) { p.chunks[0].heads = -1; });
  expect("more tokens than it has", [](Parts& p) { p.chunks[1].tokens = 4; });
  expect("fewer tokens than it has", [](Parts& p) { p.chunks[1].tokens = 2; });
  expect("more heads than the model", [](Parts& p) { p.chunks[2].heads = 5; });
  expect("fewer heads than the model", [](Parts& p) { p.chunks[2].heads = 3; });
  expect("2 costs for 3 sequences", [](Parts& p) { p.costs = {1, 2}; });
  expect("the cost of sequence 1 is -2", [](Parts& p) { p.costs = {1, -2, 3}; });
}

}  // namespace
}  // namespace knapformer
