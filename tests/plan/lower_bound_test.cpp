// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <functional>

#include "plan/group.hpp"

namespace knapformer {
namespace {

using test::draw;
using test::plan_of;
using test::Rows;

// Calls `use` with every way to write `whole` as a sum of `parts` positive numbers.
void for_each_split(std::int64_t whole, std::int64_t parts, std::vector<std::int64_t>& split,
                    const std::function<void()>& use) {
  if (parts == 1) {
    split.push_back(whole);
    use();
    split.pop_back();
    return;
  }
  for (std::int64_t first = 1; first <= whole - (parts - 1); ++first) {
    split.push_back(first);
    for_each_split(whole - first, parts - 1, split, use);
    split.pop_back();
  }
}

// The smallest largest load over all plans: any bag, any of its ranks, any shares of tokens and
// heads.
class BruteForce {
 public:
  BruteForce(Topology topology, std::vector<std::int64_t> lengths, std::int64_t heads,
             const CostModel& cost)
      : topology_(std::move(topology)),
        lengths_(std::move(lengths)),
        heads_(heads),
        cost_(cost),
        loads_(topology_.ranks()) {}

  double optimum() {
    Work everything = 0;
    for (std::int64_t n : lengths_) everything += cost_.sequence(n) * heads_;
    best_ = everything;
    place(0);
    return static_cast<double>(best_) / static_cast<double>(heads_ * CostModel::kUnitsPerOne);
  }

 private:
  void place(std::size_t i) {
    if (std::ranges::max(loads_) >= best_) return;
    if (i == lengths_.size()) {
      best_ = std::ranges::max(loads_);
      return;
    }
    for (const Bag& bag : topology_.bags()) {
      for (std::uint32_t subset = 1; subset < (1u << bag.degree); ++subset) {
        std::vector<std::int64_t> ranks;
        for (std::int64_t r = 0; r < bag.degree; ++r) {
          if (subset >> r & 1) ranks.push_back(bag.first_rank + r);
        }
        place_on(i, ranks);
      }
    }
  }

  void place_on(std::size_t i, const std::vector<std::int64_t>& ranks) {
    const std::int64_t length = lengths_[i];
    if (std::ssize(ranks) > std::min(length, heads_)) return;
    std::vector<std::int64_t> tokens, heads;
    for_each_split(length, std::ssize(ranks), tokens, [&] {
      for_each_split(heads_, std::ssize(ranks), heads, [&] {
        const std::vector<Work> before = loads_;
        for (std::size_t k = 0; k < ranks.size(); ++k) {
          loads_[ranks[k]] +=
              cost_.per_token() * tokens[k] * heads_ +
              (cost_.per_sequence() + cost_.per_token_pair() * length * length) * heads[k];
        }
        place(i + 1);
        loads_ = before;
      });
    });
  }

  Topology topology_;
  std::vector<std::int64_t> lengths_;
  std::int64_t heads_;
  const CostModel& cost_;
  std::vector<Work> loads_;
  Work best_ = 0;
};

TEST(LowerBound, IsNeverAboveTheOptimum) {
  const std::vector<std::string> topologies{
      "g1n1", "g1n2", "g1n3", "g2n1", "g2n2", "g1n1+g2n1", "g1n2+g2n1", "g3n1+g1n1", "g2n1+g1n1"};
  int tight = 0;
  constexpr int kCases = 600;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    std::mt19937_64 random(seed);
    const std::string name = topologies[draw(random, 0, std::ssize(topologies) - 1)];
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + name);
    const Topology topology = Topology::parse(name);
    const std::int64_t heads = draw(random, 1, 3);
    const CostModel cost =
        CostModel::transformer(draw(random, 1, 3), static_cast<double>(draw(random, 0, 8)));
    Rows rows(topology.ranks());
    std::vector<std::int64_t> lengths;
    for (std::int64_t n = draw(random, 1, 4); n > 0; --n) {
      lengths.push_back(draw(random, 1, 5));
      rows[0].push_back(lengths.back());
    }
    const Plan plan = plan_of(name, rows, heads, cost);
    const double optimum = BruteForce(topology, lengths, heads, cost).optimum();
    const double bound = plan.report().lower_bound;
    ASSERT_LE(bound, optimum);
    ASSERT_GT(bound, 0);
    ASSERT_LE(optimum, std::ranges::max(plan.report().work_after));
    tight += bound == optimum;
  }
  EXPECT_GT(tight, kCases / 3) << "a bound that is never reached says little";
}

// Bags as single ranks of their summed speed: a relaxation of any plan whose bags all work in full.
double relaxed_optimum(const Topology& topology, const std::vector<double>& work) {
  std::vector<double> loads(topology.bags().size());
  double best = 1e300;
  const std::function<void(std::size_t)> place = [&](std::size_t i) {
    if (std::ranges::max(loads) >= best) return;
    if (i == work.size()) {
      best = std::ranges::max(loads);
      return;
    }
    for (std::size_t b = 0; b < loads.size(); ++b) {
      const double before = loads[b];
      loads[b] += work[i] / static_cast<double>(topology.bags()[b].degree);
      place(i + 1);
      loads[b] = before;
    }
  };
  place(0);
  return best;
}

// The largest load over speed that any plan must have, bags of any ranks up to a degree.
class ElasticBruteForce {
 public:
  ElasticBruteForce(const std::vector<std::int64_t>& lengths, std::int64_t heads,
                    const CostModel& cost, std::int64_t max_degree, std::vector<double> speeds)
      : lengths_(lengths),
        heads_(heads),
        cost_(cost),
        max_degree_(max_degree),
        speeds_(std::move(speeds)),
        loads_(speeds_.size()) {}

  double optimum() {
    place(0);
    return best_;
  }

 private:
  void place(std::size_t i) {
    const double largest = std::ranges::max(loads_);
    if (largest >= best_) return;
    if (i == lengths_.size()) {
      best_ = largest;
      return;
    }
    for (std::uint32_t subset = 1; subset < (1u << loads_.size()); ++subset) {
      std::vector<std::size_t> ranks;
      for (std::size_t r = 0; r < loads_.size(); ++r) {
        if (subset >> r & 1) ranks.push_back(r);
      }
      if (std::ssize(ranks) <= std::min({max_degree_, lengths_[i], heads_})) place_on(i, ranks);
    }
  }

  void place_on(std::size_t i, const std::vector<std::size_t>& ranks) {
    const std::int64_t length = lengths_[i];
    std::vector<std::int64_t> tokens, heads;
    for_each_split(length, std::ssize(ranks), tokens, [&] {
      for_each_split(heads_, std::ssize(ranks), heads, [&] {
        const std::vector<double> before = loads_;
        for (std::size_t k = 0; k < ranks.size(); ++k) {
          const Work work =
              cost_.per_token() * tokens[k] * heads_ +
              (cost_.per_sequence() + cost_.per_token_pair() * length * length) * heads[k];
          loads_[ranks[k]] += static_cast<double>(work) /
                              static_cast<double>(heads_ * CostModel::kUnitsPerOne) /
                              speeds_[ranks[k]];
        }
        place(i + 1);
        loads_ = before;
      });
    });
  }

  const std::vector<std::int64_t>& lengths_;
  std::int64_t heads_;
  const CostModel& cost_;
  std::int64_t max_degree_;
  std::vector<double> speeds_;
  std::vector<double> loads_;
  double best_ = 1e300;
};

TEST(LowerBound, IsNeverAboveTheOptimumOfElasticBagsWithSpeeds) {
  constexpr int kCases = 400;
  int tight = 0;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const std::int64_t ranks = draw(random, 1, 3);
    const std::int64_t heads = draw(random, 1, 3);
    const std::int64_t max_degree = draw(random, 1, 3);
    const CostModel cost =
        CostModel::transformer(draw(random, 1, 3), static_cast<double>(draw(random, 0, 8)));
    std::vector<std::int64_t> offsets(ranks + 1), lengths;
    for (std::int64_t n = draw(random, 1, 4); n > 0; --n) lengths.push_back(draw(random, 1, 4));
    std::fill(offsets.begin() + 1, offsets.end(), std::ssize(lengths));
    Machine machine;
    std::vector<double> speeds(ranks, 1);
    if (draw(random, 0, 1) == 0) {
      for (double& speed : speeds) speed = static_cast<double>(draw(random, 1, 6)) / 3;
      machine.speeds = speeds;
    }
    // The bounds do not depend on the plan, so that at home will do.
    const Topology elastic = Topology::elastic(max_degree);
    const PlanReport report =
        make_home_plan({elastic, cost, heads, lengths, offsets, {}, machine}).report();
    const double optimum = ElasticBruteForce(lengths, heads, cost, max_degree, speeds).optimum();
    const double any = ElasticBruteForce(lengths, heads, cost, ranks, speeds).optimum();
    constexpr double kRounding = 1 + 1e-12;  // of the sums in the brute force
    ASSERT_LE(report.lower_bound, optimum * kRounding);
    ASSERT_LE(report.elastic_lower_bound, any * kRounding);
    ASSERT_LE(report.elastic_lower_bound, report.lower_bound);
    ASSERT_GT(report.elastic_lower_bound, 0);
    tight += report.lower_bound * (1 + 1e-6) >= optimum;

    const Topology singles = Topology::singles(ranks);
    const double whole = ElasticBruteForce(lengths, heads, cost, 1, speeds).optimum();
    const Plan plan = make_plan({singles, cost, heads, lengths, offsets, {}, machine});
    ASSERT_LE(plan.report().lower_bound, whole * kRounding);
    ASSERT_GE(plan.report().lower_bound_gap, 0);
  }
  EXPECT_GT(tight, kCases / 4) << "a bound that is never reached says little";
}

TEST(LowerBound, IsNeverAboveTheOptimumOfLargerBags) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<std::string> topologies{"g1n4", "g4n3", "g1n2+g2n1+g4n1", "g3n2+g6n1",
                                              "g1n3+g12n1"};
    const std::string name = topologies[draw(random, 0, std::ssize(topologies) - 1)];
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + name);
    const Topology topology = Topology::parse(name);
    const CostModel cost = CostModel::transformer(100, 0.5);
    Rows rows(topology.ranks());
    std::vector<double> work;
    for (std::int64_t n = draw(random, 1, 7); n > 0; --n) {
      rows[0].push_back(12 * draw(random, 1, draw(random, 2, 400)));
      work.push_back(static_cast<double>(cost.sequence(rows[0].back())) / CostModel::kUnitsPerOne);
    }
    const Plan plan = plan_of(name, rows, 12, cost);
    ASSERT_LE(plan.report().lower_bound, relaxed_optimum(topology, work) * (1 + 1e-12));
  }
}

TEST(LowerBound, SeesWhatTheMeanDoesNot) {
  const auto bound_over_mean = [](const char* topology, const Rows& rows) {
    const PlanReport report = plan_of(topology, rows, 12, CostModel::transformer(1, 0)).report();
    return report.lower_bound * static_cast<double>(rows.size()) /
           (6.0 * static_cast<double>(report.total_tokens));
  };
  EXPECT_DOUBLE_EQ(bound_over_mean("g1n4", {{400}, {}, {}, {}}), 4) << "one sequence, one rank";
  EXPECT_DOUBLE_EQ(bound_over_mean("g2n2", {{400}, {}, {}, {}}), 2) << "one sequence, one bag";
  EXPECT_DOUBLE_EQ(bound_over_mean("g1n2", {{120, 120, 120}, {}}), 4 / 3.0)
      << "two of three share a rank";
  EXPECT_DOUBLE_EQ(bound_over_mean("g4n2", {{120, 120, 120}, {}, {}, {}, {}, {}, {}, {}}), 4 / 3.0);
  EXPECT_DOUBLE_EQ(bound_over_mean("g1n2+g2n1", {{400, 400}, {}, {}, {}}), 2)
      << "both in the large bag is as bad as one in a small one";
}

}  // namespace
}  // namespace knapformer
