// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>

#include "plan/group.hpp"

namespace knapformer {
namespace {

using test::Group;
using test::plan_of;
using test::Rows;

TEST(Planner, BeatsTheRuleOfThePaperWhereItStumbles) {
  for (double gamma : {0.0, 0.5, 1.0}) {
    const CostModel cost = CostModel::transformer(3072, gamma);
    const Plan plan = plan_of("g1n2+g2n1", {{100, 200, 300, 400}, {}, {}, {}}, 24, cost);
    EXPECT_NEAR(plan.max_over_mean(), 1.20, 0.005) << gamma;
    EXPECT_LT(plan.report().lower_bound_gap, 1e-6);
  }
}

TEST(Planner, ABalancedGroupStaysHome) {
  const Rows rows(8, {700, 90, 300, 300, 300, 1});
  const Plan plan = plan_of("g1n8", rows);
  EXPECT_EQ(plan.report().moved_tokens, 0);
  EXPECT_EQ(plan.max_over_mean(), 1);
  EXPECT_EQ(plan.report().lower_bound_gap, 0);

  const Plan split = plan_of("g4n2", rows);
  for (std::int64_t i = 0; i < split.sequences(); ++i) {
    for (const Chunk& chunk : split.chunks(i)) EXPECT_EQ(chunk.rank / 4, split.homes()[i] / 4);
  }
}

TEST(Planner, AmongEquallyLoadedBagsTheHomeIsTaken) {
  EXPECT_EQ(plan_of("g1n4", {{}, {}, {300}, {400}}).report().moved_tokens, 0);
  const Plan plan = plan_of("g1n2+g2n2", {{}, {20}, {}, {}, {}, {400}});
  EXPECT_EQ(plan.chunks(0).front().rank, 1);
  EXPECT_EQ(plan.chunks(1).front().rank, 4);
}

TEST(Planner, ShortSequencesUseFewerRanksThanTheirBag) {
  const Plan plan = plan_of("g4n1", {{0, 1, 2, 3, 4, 5}, {}, {}, {}});
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(std::ssize(plan.chunks(i)), std::min<std::int64_t>(i, 4)) << i;
  }
  const auto& tokens = plan.report().tokens_after;
  EXPECT_LE(std::ranges::max(tokens) - std::ranges::min(tokens), 1);
}

TEST(Planner, ABagHasNoMoreRanksThanTheModelHeads) {
  const Plan plan = plan_of("g8n1", {{100, 100, 100, 100}, {}, {}, {}, {}, {}, {}, {}}, 2);
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(plan.chunks(i).size(), 2u);
  EXPECT_EQ(plan.max_over_mean(), 1) << "four pairs of ranks, one for each";
}

TEST(Planner, SpareHeadsGoRoundTheRanks) {
  const Plan plan = plan_of("g5n1", {std::vector<std::int64_t>(5, 1000), {}, {}, {}, {}});
  for (double n : plan.report().attention_tokens) EXPECT_DOUBLE_EQ(n, 1000);
  EXPECT_NEAR(plan.max_over_mean(), 1, 1e-12);
}

TEST(Planner, LargeBagsAreKeptForWhatNeedsThem) {
  const Plan plan =
      plan_of("g1n4+g4n1", {{8000, 1000, 1000, 1000, 1000}, {}, {}, {}, {}, {}, {}, {}});
  EXPECT_EQ(plan.chunks(0).size(), 4u);
  for (std::int64_t i = 1; i < 5; ++i) EXPECT_EQ(plan.chunks(i).size(), 1u);
}

TEST(Planner, CostsOfTheCallerReplaceTheModel) {
  const Rows lengths{{10, 10, 10, 10}, {10}};
  const Group group(lengths);
  const std::vector<std::int64_t> costs{40, 1, 1, 1, 37};
  const Plan plan = make_plan({.topology = Topology::parse("g1n2"),
                               .cost = CostModel::transformer(64),
                               .lengths = group.values,
                               .offsets = group.offsets,
                               .costs = costs,
                               .machine = Machine::without_communication()});
  EXPECT_EQ(plan.report().work_before, (std::vector<double>{43, 37}));
  EXPECT_EQ(plan.report().work_after, (std::vector<double>{40, 40}));
  EXPECT_EQ(plan.report().tokens_after, (std::vector<std::int64_t>{40, 10}))
      << "the two ranks are alike, and this way round fewer tokens move";
}

TEST(Planner, WorkThatCostsNothingIsPlannedToo) {
  const Plan plan = plan_of("g1n2+g2n1", {{10, 20}, {}, {30}, {}}, 2, CostModel::transformer(64),
                            {{0, 0}, {}, {0}, {}});
  EXPECT_EQ(plan.report().total_tokens, 60);
  EXPECT_EQ(plan.max_over_mean(), 1);
}

TEST(Planner, EmptyGroups) {
  for (const Rows& rows : {Rows{{}, {}, {}, {}}, Rows{{0}, {}, {0, 0}, {}}}) {
    const Plan plan = plan_of("g1n2+g2n1", rows);
    EXPECT_TRUE(plan.all_chunks().empty());
    EXPECT_EQ(plan.max_over_mean(), 1);
    EXPECT_EQ(plan.report().lower_bound, 0);
    EXPECT_EQ(plan.report().lower_bound_gap, 0);
  }
}

TEST(Planner, TheHomePlanMovesNothing) {
  const Group group({{5, 0, 7}, {}, {11}});
  const Topology topology = Topology::parse("g3n1");
  const CostModel cost = CostModel::transformer(64);
  const Plan plan = make_home_plan({topology, cost, 4, group.values, group.offsets});
  EXPECT_EQ(plan.report().moved_tokens, 0);
  EXPECT_EQ(plan.report().work_after, plan.report().work_before);
  EXPECT_EQ(plan.report().ulysses_tokens, 0);
  EXPECT_GT(plan.report().lower_bound_gap, 0);
  for (std::int64_t i : {0, 2, 3}) {
    ASSERT_EQ(plan.chunks(i).size(), 1u);
    EXPECT_EQ(plan.chunks(i)[0], (Chunk{plan.homes()[i], 0, plan.lengths()[i], 0, 4}));
  }
}

TEST(Planner, RanksGetWorkInProportionToTheirSpeed) {
  const Group group({std::vector<std::int64_t>(64, 100), {}, {}});
  for (const char* topology : {"g1n3", "g3n1"}) {
    PlanRequest request{.topology = Topology::parse("g1n3"),
                        .cost = CostModel::transformer(64),
                        .heads = 24,
                        .lengths = group.values,
                        .offsets = group.offsets,
                        .machine = Machine::without_communication()};
    request.machine.speeds = {1, 1, 2};
    const Topology bags = Topology::parse(topology);
    const Plan plan =
        make_plan({bags, request.cost, 24, group.values, group.offsets, {}, request.machine});
    EXPECT_EQ(plan.report().tokens_after, (std::vector<std::int64_t>{1600, 1600, 3200}));
    EXPECT_NEAR(plan.max_over_mean(), 1, 1e-12);
    EXPECT_NEAR(plan.report().lower_bound_gap, 0, 1e-8);
  }
}

TEST(Planner, CapsAreMetOrRefusedWithTheNumbers) {
  const CostModel cost = CostModel::transformer(64);
  const auto plan = [&](const char* topology, const Rows& rows, std::int64_t tokens,
                        std::int64_t attention = PlanRequest::kNoCap) {
    const Group group(rows);
    return make_plan({.topology = Topology::parse(topology),
                      .cost = cost,
                      .heads = 3,
                      .lengths = group.values,
                      .offsets = group.offsets,
                      .max_tokens_per_rank = tokens,
                      .max_attention_tokens_per_rank = attention});
  };
  // Largest first leaves 7 beside 6; they fit only as 4+6 and 3+3+4.
  const Plan tight = plan("g1n2", {{6, 4, 4, 3, 3}, {}}, 10);
  EXPECT_EQ(tight.report().tokens_after, (std::vector<std::int64_t>{10, 10}));
  EXPECT_ERROR(plan("g1n2", {{6, 4, 4, 3, 4}, {}}, 10), "at least 11 on one");
  EXPECT_ERROR(plan("g1n2", {{6, 4, 4, 3, 4}, {}}, 10), "cap of 10 tokens per rank");
  EXPECT_ERROR(plan("g2n2", {{5, 90}, {}, {}, {}}, 40), "sequence 1 (home 0, 90 tokens)");
  EXPECT_ERROR(plan("g2n2", {{5, 90}, {}, {}, {}}, 40), "raise it to at least 45");
  EXPECT_ERROR(plan("g2n2", {{5, 90}, {}, {}, {}}, 50, 50), "one of which needs 60");
  EXPECT_ERROR(plan("g1n2", {{6, 6, 6}, {}}, 10), "could not find");
}

TEST(Planner, EqualSpeedsMakeTheSamePlanAsNone) {
  const Group group({{9000, 400, 300}, {500, 700}, {}, {100, 2000, 50}});
  const CostModel cost = CostModel::transformer(3072);
  for (const char* name : {"elastic", "g1n4", "g2n2"}) {
    const Topology topology = Topology::parse(name);
    PlanRequest request{topology, cost, 24, group.values, group.offsets};
    request.machine = Machine::without_communication();
    const std::uint64_t hash = make_plan(request).hash();
    request.machine.speeds = {2, 2, 2, 2};
    EXPECT_EQ(make_plan(request).hash(), hash) << name;
  }
}

TEST(Planner, RejectsWhatCannotBePlanned) {
  const CostModel cost = CostModel::transformer(64);
  EXPECT_ERROR(plan_of("g4n8", {{1}, {2}}),
               "topology g4n8 is for 32 ranks, but there are lengths for 2");
  EXPECT_ERROR(plan_of("g1n1", {{1}, {2}}), "for 1 rank, but there are lengths for 2");
  EXPECT_ERROR(plan_of("g1n2", {{1, 2}, {-3}}), "the length of sequence 2 is -3");
  EXPECT_ERROR(plan_of("g1n1", {{CostModel::kMaxLength + 1}}), "the length of sequence 0");
  EXPECT_ERROR(plan_of("g1n1", {{1}}, 0), "number of heads is 0");
  EXPECT_ERROR(plan_of("g1n1", {{1}}, -4), "number of heads is -4");
  EXPECT_ERROR(plan_of("g1n1", {{1}}, Plan::kMaxHeads + 1), "number of heads");
  EXPECT_ERROR(plan_of("g1n1", {{1, 2}}, 1, cost, {{1}}), "1 cost for 2 sequences");
  EXPECT_ERROR(plan_of("g1n1", {{1, 2}}, 1, cost, {{1, -1}}), "the cost of sequence 1 is -1");
  const Topology topology = Topology::parse("g1n2");
  const std::vector<std::int64_t> lengths{1, 2};
  for (const std::vector<std::int64_t>& offsets :
       {std::vector<std::int64_t>{0, 3, 2}, {1, 1, 2}, {0, 1, 1}}) {
    EXPECT_ERROR(make_plan({topology, cost, 1, lengths, offsets}), "must rise from 0");
  }
  EXPECT_ERROR(make_plan({topology, cost, 1, {}, {}}), "lengths for 0");
  const std::vector<std::int64_t> right{0, 1, 2};
  PlanRequest request{topology, cost, 1, lengths, right};
  request.budget = -2;
  EXPECT_ERROR(make_plan(request), "the search budget is -2");
  request.budget = 0;
  request.max_tokens_per_rank = -1;
  EXPECT_ERROR(make_plan(request), "the cap on tokens is -1");
}

TEST(Planner, ExtremesAreExactOrRefused) {
  const CostModel dear = CostModel::transformer(1 << 20, 1024, std::int64_t{1} << 40);
  const Rows longest{{CostModel::kMaxLength}, {}};
  const Plan plan = plan_of("g2n1", longest, Plan::kMaxHeads, dear);
  EXPECT_EQ(plan.max_over_mean(), 1);
  EXPECT_EQ(plan.report().lower_bound_gap, 0);

  const Rows many{std::vector<std::int64_t>(100, CostModel::kMaxLength), {}};
  EXPECT_ERROR(plan_of("g2n1", many, Plan::kMaxHeads, dear),
               "more work in all than can be planned");
  EXPECT_EQ(plan_of("g2n1", many, 24, CostModel::transformer(3072)).max_over_mean(), 1);

  const std::int64_t highest = std::numeric_limits<std::int64_t>::max();
  const Plan costly = plan_of("g2n1", longest, Plan::kMaxHeads, dear, {{highest}, {}});
  EXPECT_DOUBLE_EQ(costly.report().work_after[0], static_cast<double>(highest) / 2);
}

}  // namespace
}  // namespace knapformer
