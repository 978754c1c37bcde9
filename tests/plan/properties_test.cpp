// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <numeric>
#include <optional>

#include "plan/fixed/greedy.hpp"
#include "plan/fixed/share_out.hpp"
#include "plan/group.hpp"
#include "plan/work_order.hpp"

namespace knapformer {
namespace {

using test::draw;
using test::Group;
using test::Rows;

struct Instance {
  std::string topology;
  Rows rows;
  Rows costs;
  std::int64_t heads = 1;
  CostModel cost = CostModel::transformer(64);
  Machine machine;
  std::int64_t max_tokens = PlanRequest::kNoCap;
  std::int64_t max_attention_tokens = PlanRequest::kNoCap;
  std::int64_t budget = PlanRequest::kDefaultBudget;

  bool capped() const { return std::min(max_tokens, max_attention_tokens) < PlanRequest::kNoCap; }

  Plan plan() const {
    const Group group(rows);
    const std::vector<std::int64_t> all_costs = Group(costs).values;
    return make_plan({Topology::parse(topology), cost, heads, group.values, group.offsets,
                      all_costs, machine, max_tokens, max_attention_tokens, budget});
  }
};

void add_machine(std::mt19937_64& random, std::int64_t ranks, Instance& out) {
  // With costs of the caller it counts as free.
  if (draw(random, 0, 2) == 0 || !out.costs.empty()) {
    out.machine = Machine::without_communication();
  }
  out.machine.ranks_per_node = draw(random, 1, 9);
  for (std::int64_t r = 0, some = draw(random, 0, 2); some == 0 && r < ranks; ++r) {
    out.machine.speeds.push_back(static_cast<double>(draw(random, 1, 4)) / 3);
  }
  const std::vector<std::int64_t> budgets{PlanRequest::kDefaultBudget, 0, 1, 50};
  out.budget = budgets[draw(random, 0, 3)];
}

void add_caps(std::mt19937_64& random, Instance& out) {
  const std::vector<std::int64_t> lengths = Group(out.rows).values;
  const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const auto cap = [&] { return total * draw(random, 98, 250) / (100 * std::ssize(out.rows)) + 1; };
  if (draw(random, 0, 2) == 0) out.max_tokens = cap();
  if (draw(random, 0, 3) == 0) out.max_attention_tokens = cap();
}

// Mixed topologies, odd degrees, empty ranks, one giant, many lengths of 0 and 1, few sequences.
Instance random_instance(std::mt19937_64& random) {
  Instance out;
  std::vector<std::int64_t> degrees{1, 2, 3, 4, 5, 6, 8, 12};
  std::shuffle(degrees.begin(), degrees.end(), random);
  degrees.resize(draw(random, 1, 3));
  std::int64_t ranks = 0;
  for (std::int64_t degree : degrees) {
    const std::int64_t count = draw(random, 1, 4);
    out.topology +=
        (out.topology.empty() ? "g" : "+g") + std::to_string(degree) + "n" + std::to_string(count);
    ranks += degree * count;
  }
  const std::vector<std::int64_t> heads{1, 2, 3, 5, 7, 12, 16, 24, 48};
  out.heads = heads[draw(random, 0, std::ssize(heads) - 1)];
  out.cost =
      CostModel::transformer(draw(random, 1, 4096), static_cast<double>(draw(random, 0, 200)) / 100,
                             draw(random, 0, 1) * draw(random, 0, 100000));
  const std::int64_t longest = std::int64_t{1} << draw(random, 0, 15);
  const std::int64_t most = draw(random, 0, 12);
  const bool with_costs = draw(random, 0, 3) == 0;
  out.rows.resize(ranks);
  if (with_costs) out.costs.resize(ranks);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (draw(random, 0, 3) == 0) continue;
    for (std::int64_t n = draw(random, 0, most); n > 0; --n) {
      const std::int64_t kind = draw(random, 0, 9);
      out.rows[rank].push_back(kind < 2 ? kind : draw(random, 0, longest));
      if (with_costs) out.costs[rank].push_back(draw(random, 0, 1) * draw(random, 0, 1000000));
    }
  }
  if (draw(random, 0, 4) == 0) {
    const std::int64_t rank = draw(random, 0, ranks - 1);
    out.rows[rank].push_back(1 << 20);
    if (with_costs) out.costs[rank].push_back(1000000000);
  }
  add_machine(random, ranks, out);
  if (draw(random, 0, 2) == 0) add_caps(random, out);
  return out;
}

Bag bag_of(const Topology& topology, std::int64_t rank) {
  for (const Bag& bag : topology.bags()) {
    if (rank >= bag.first_rank && rank < bag.first_rank + bag.degree) return bag;
  }
  ADD_FAILURE() << "rank " << rank << " is in no bag";
  return {};
}

void expect_equal_shares(const Plan& plan, const Topology& topology) {
  for (std::int64_t i = 0; i < plan.sequences(); ++i) {
    const auto chunks = plan.chunks(i);
    const std::int64_t length = plan.lengths()[i];
    if (length == 0) {
      EXPECT_TRUE(chunks.empty());
      continue;
    }
    ASSERT_FALSE(chunks.empty());
    const Bag bag = bag_of(topology, chunks.front().rank);
    const std::int64_t shares = std::min({bag.degree, length, plan.heads()});
    ASSERT_EQ(std::ssize(chunks), shares);
    EXPECT_LT(chunks.back().rank, bag.first_rank + bag.degree);
    EXPECT_TRUE(std::ranges::is_sorted(chunks, std::ranges::less(), &Chunk::rank));
    for (const Chunk& chunk : chunks) {
      EXPECT_TRUE(chunk.tokens == length / shares || chunk.tokens == length / shares + 1);
      EXPECT_TRUE(chunk.heads == plan.heads() / shares || chunk.heads == plan.heads() / shares + 1);
    }
  }
}

// Loads from the chunks and the formula alone, in floating point.
std::vector<double> loads(const Plan& plan, const Instance& instance) {
  std::vector<double> out(plan.ranks());
  const std::vector<std::int64_t> costs = Group(instance.costs).values;
  const auto units = [](Work w) { return static_cast<double>(w) / CostModel::kUnitsPerOne; };
  for (std::int64_t i = 0; i < plan.sequences(); ++i) {
    const double length = static_cast<double>(plan.lengths()[i]);
    for (const Chunk& chunk : plan.chunks(i)) {
      const double tokens = static_cast<double>(chunk.tokens);
      const double heads = static_cast<double>(chunk.heads) / static_cast<double>(plan.heads());
      out[chunk.rank] += costs.empty()
                             ? units(instance.cost.per_token()) * tokens +
                                   (units(instance.cost.per_sequence()) +
                                    units(instance.cost.per_token_pair()) * length * length) *
                                       heads
                             : static_cast<double>(costs[i]) * tokens / length;
    }
  }
  return out;
}

void expect_report_of_chunks(const Plan& plan, const Instance& instance) {
  const PlanReport& report = plan.report();
  const std::vector<double> expected = loads(plan, instance);
  const double total = std::accumulate(expected.begin(), expected.end(), 0.0);
  double largest = 0, speeds = 0;
  for (std::int64_t r = 0; r < plan.ranks(); ++r) {
    const double speed = instance.machine.speeds.empty() ? 1 : instance.machine.speeds[r];
    largest = std::max(largest, expected[r] / speed);
    speeds += speed;
  }
  const double tolerance =
      1e-12 * total + 1e-3;  // costs of the caller are shared in units of 2^-16
  for (std::int64_t r = 0; r < plan.ranks(); ++r)
    EXPECT_NEAR(report.work_after[r], expected[r], tolerance);
  if (total > 0) {
    EXPECT_NEAR(report.max_over_mean, largest * speeds / total, 1e-5);
    EXPECT_NEAR(report.lower_bound_gap, largest / report.lower_bound - 1, 1e-5);
  }
  EXPECT_GE(report.lower_bound_gap, 0);
  EXPECT_GE(report.elastic_lower_bound_gap, 0);
  EXPECT_LE(report.elastic_lower_bound, report.lower_bound * (1 + 1e-12));
  EXPECT_NEAR(std::accumulate(report.work_before.begin(), report.work_before.end(), 0.0), total,
              tolerance);
  const auto tokens = [](const auto& v) {
    return std::accumulate(v.begin(), v.end(), std::int64_t{0});
  };
  EXPECT_EQ(tokens(report.tokens_before), report.total_tokens);
  EXPECT_EQ(tokens(report.tokens_after), report.total_tokens);
  EXPECT_NEAR(std::accumulate(report.attention_tokens.begin(), report.attention_tokens.end(), 0.0),
              static_cast<double>(report.total_tokens),
              1e-6 * static_cast<double>(report.total_tokens));
  EXPECT_LE(report.moved_tokens, report.total_tokens);
  EXPECT_LE(report.ulysses_tokens, static_cast<double>(report.total_tokens));
}

// In the planner's own integers; in those nothing is lost to rounding.
void expect_never_worse_than_greedy(const Plan& plan, const Instance& instance) {
  const std::vector<std::int64_t> costs = Group(instance.costs).values;
  const GroupWork work(instance.cost, instance.heads, plan.lengths(), costs);
  const Topology topology = Topology::parse(instance.topology);
  PlanProblem problem{.topology = topology,
                      .ranks = plan.ranks(),
                      .machine = instance.machine,
                      .work = work,
                      .heads = instance.heads,
                      .homes = plan.homes(),
                      .lengths = plan.lengths()};
  problem.order = WorkOrder(problem).all();
  const StepTicks ticks(problem);
  const auto offsets = plan.chunk_offsets();
  const auto chunks = plan.all_chunks();
  const Assignment made{{offsets.begin(), offsets.end()}, {chunks.begin(), chunks.end()}};
  const auto rating = [&](const Assignment& a) {
    std::int64_t moved = 0;
    for (std::int64_t i = 0; i < plan.sequences(); ++i) {
      for (std::int64_t c = a.chunk_offsets[i]; c < a.chunk_offsets[i + 1]; ++c) {
        if (a.chunks[c].rank != problem.homes[i]) moved += a.chunks[c].tokens;
      }
    }
    return std::pair(ticks.largest(problem, a), moved);
  };
  for (GreedyRule rule : {GreedyRule::kLeastAfterAdding, GreedyRule::kLeastOccupied}) {
    EXPECT_LE(rating(made), rating(assign(problem, rule)));
  }
}

void expect_caps(const Plan& plan, const Instance& instance) {
  EXPECT_LE(std::ranges::max(plan.report().tokens_after), instance.max_tokens);
  EXPECT_LE(std::ranges::max(plan.report().attention_tokens),
            static_cast<double>(instance.max_attention_tokens) * (1 + 1e-12));
}

TEST(Properties, HoldForRandomGroups) {
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    std::mt19937_64 random(seed);
    const Instance instance = random_instance(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + instance.topology + ", heads " +
                 std::to_string(instance.heads));
    const Topology topology = Topology::parse(instance.topology);
    const auto make = [&]() -> std::optional<Plan> {
      try {
        return instance.plan();
      } catch (const Error& error) {
        const std::string message = error.what();
        EXPECT_TRUE(instance.capped()) << message;
        EXPECT_TRUE(message.find("cap") != std::string::npos) << message;
        return std::nullopt;
      }
    };
    const std::optional<Plan> made = make();
    if (testing::Test::HasFailure()) return;
    refused += !made;
    if (!made) continue;
    const Plan& plan = *made;
    ASSERT_NO_THROW(plan.validate());
    const Group group(instance.rows);
    EXPECT_TRUE(std::ranges::equal(plan.lengths(), group.values)) << "the order by home is kept";
    for (std::int64_t i = 0; i < plan.sequences(); ++i) {
      const std::int64_t home = plan.homes()[i];
      EXPECT_TRUE(i >= group.offsets[home] && i < group.offsets[home + 1]);
    }
    if (instance.machine.speeds.empty() && !instance.capped()) expect_equal_shares(plan, topology);
    expect_report_of_chunks(plan, instance);
    expect_caps(plan, instance);
    if (!instance.capped()) expect_never_worse_than_greedy(plan, instance);
    EXPECT_EQ(plan.hash(), make()->hash());
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_LT(refused, 1000) << "few requests should be refused";
}

// Whatever remains of heads and tokens is spread, so the ranks of one bag stay close.
TEST(Properties, RemaindersDoNotPileUpOnARank) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Rows rows(5);
    std::int64_t longest = 0;
    for (int i = 0; i < 40; ++i) {
      rows[0].push_back(draw(random, 100, 2000));
      longest = std::max(longest, rows[0].back());
    }
    const CostModel cost = CostModel::transformer(16, 1);
    const Plan plan = test::plan_of("g5n1", rows, 24, cost);
    const auto& work = plan.report().work_after;
    const double head = static_cast<double>(longest) * static_cast<double>(longest) / 24;
    EXPECT_LE(std::ranges::max(work) - std::ranges::min(work), head + 2 * 6 * 16);
  }
}

}  // namespace
}  // namespace knapformer
