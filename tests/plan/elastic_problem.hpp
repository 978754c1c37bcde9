// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <algorithm>

#include "plan/group.hpp"

namespace knapformer::test {

/// A request for elastic bags that owns what it asks about.
struct ElasticProblem {
  Rows rows;
  Rows costs;  ///< empty, or as many as there are lengths
  std::int64_t heads = 1;
  std::int64_t max_degree = Topology::kAnyDegree;
  CostModel cost = CostModel::transformer(64);
  Machine machine = {};
  std::int64_t max_tokens = PlanRequest::kNoCap;
  std::int64_t max_attention_tokens = PlanRequest::kNoCap;
  std::int64_t budget = PlanRequest::kDefaultBudget;

  std::int64_t ranks() const { return std::ssize(rows); }
  double speed(std::int64_t rank) const {
    return machine.speeds.empty() ? 1 : machine.speeds[rank];
  }
  bool has_caps() const { return std::min(max_tokens, max_attention_tokens) < PlanRequest::kNoCap; }

  /// The tokens of the rank that has most of them; as many are resident in its attention.
  std::int64_t most_tokens_at_home() const {
    std::int64_t most = 0;
    for (const auto& row : rows) {
      std::int64_t tokens = 0;
      for (const std::int64_t length : row) tokens += length;
      most = std::max(most, tokens);
    }
    return most;
  }

  bool fits_at_home() const {
    return most_tokens_at_home() <= std::min(max_tokens, max_attention_tokens);
  }

  Plan plan() const {
    const Group lengths(rows);
    const std::vector<std::int64_t> values =
        costs.empty() ? std::vector<std::int64_t>{} : Group(costs).values;
    return make_plan({.topology = Topology::elastic(max_degree),
                      .cost = cost,
                      .heads = heads,
                      .lengths = lengths.values,
                      .offsets = lengths.offsets,
                      .costs = values,
                      .machine = machine,
                      .max_tokens_per_rank = max_tokens,
                      .max_attention_tokens_per_rank = max_attention_tokens,
                      .budget = budget});
  }
};

template <class T>
T pick(std::mt19937_64& random, const std::vector<T>& from) {
  return from[draw(random, 0, std::ssize(from) - 1)];
}

inline bool one_in(std::mt19937_64& random, std::int64_t n) { return draw(random, 1, n) == 1; }

inline std::vector<std::int64_t>& pick_row(std::mt19937_64& random, Rows& rows) {
  return rows[draw(random, 0, std::ssize(rows) - 1)];
}

inline Machine random_machine(std::mt19937_64& random, std::int64_t ranks) {
  Machine machine;
  switch (draw(random, 0, 3)) {
    case 0:
      break;
    case 1:  // slow links
      machine.bandwidth_within = 1e9;
      machine.bandwidth_between = 1e7;
      machine.latency = 1e-3;
      break;
    default:
      machine = Machine::without_communication();
  }
  machine.ranks_per_node = pick<std::int64_t>(random, {1, 2, 3, 4, 8, 64});
  machine.layers = draw(random, 1, 60);
  machine.bytes_per_element = pick<std::int64_t>(random, {2, 4});
  if (one_in(random, 3)) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      machine.speeds.push_back(pick<double>(random, {1, 1, 2, 0.5, 0.7, 1.3}));
    }
  }
  return machine;
}

/// From too small for any plan to larger than what stays home needs.
inline std::int64_t random_cap(std::mt19937_64& random, const ElasticProblem& problem) {
  if (one_in(random, 4)) return problem.most_tokens_at_home();
  std::int64_t total = 0;
  for (const auto& row : problem.rows) {
    for (const std::int64_t length : row) total += length;
  }
  return total * draw(random, 8, 25) / (10 * problem.ranks()) + draw(random, 0, 1);
}

inline void add_caps(std::mt19937_64& random, ElasticProblem& problem) {
  if (one_in(random, 4)) problem.max_tokens = random_cap(random, problem);
  if (one_in(random, 4)) problem.max_attention_tokens = random_cap(random, problem);
}

/// Communication then counts as free.
inline void add_costs(std::mt19937_64& random, ElasticProblem& problem) {
  const Machine free = Machine::without_communication();
  problem.machine.bandwidth_within = free.bandwidth_within;
  problem.machine.bandwidth_between = free.bandwidth_between;
  problem.machine.latency = free.latency;
  for (const auto& row : problem.rows) {
    auto& costs = problem.costs.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      costs.push_back(draw(random, 0, 3) > 0 ? draw(random, 0, 1000000) : 0);
    }
  }
}

/// Empty ranks, lengths of 0 and 1, now and then one giant; few sequences or, rarely, many.
inline ElasticProblem random_problem(std::mt19937_64& random) {
  ElasticProblem out;
  out.rows.resize(draw(random, 1, one_in(random, 4) ? 40 : 8));
  out.heads = pick<std::int64_t>(random, {1, 2, 3, 5, 12, 24});
  if (one_in(random, 2)) out.max_degree = draw(random, 1, out.ranks() + 1);
  out.cost =
      CostModel::transformer(draw(random, 1, 4096), static_cast<double>(draw(random, 0, 200)) / 100,
                             draw(random, 0, 1) * draw(random, 0, 100000));
  const std::int64_t longest = std::int64_t{1} << draw(random, 0, 14);
  const std::int64_t most = one_in(random, 8) ? 12 : 3;
  for (auto& row : out.rows) {
    if (one_in(random, 4)) continue;
    for (std::int64_t n = draw(random, 0, most); n > 0; --n) {
      const std::int64_t kind = draw(random, 0, 9);
      row.push_back(kind < 2 ? kind : draw(random, 0, longest));
    }
  }
  if (one_in(random, 5)) pick_row(random, out.rows).push_back(50 * longest + 1000);
  out.machine = random_machine(random, out.ranks());
  if (one_in(random, 4)) add_costs(random, out);
  add_caps(random, out);
  out.budget = pick<std::int64_t>(
      random, {PlanRequest::kDefaultBudget, PlanRequest::kDefaultBudget, 0, 1, 50, 1000});
  return out;
}

/// So small that every plan can be tried: 2 or 3 ranks and heads, 3 or 4 sequences.
inline ElasticProblem small_problem(std::mt19937_64& random) {
  ElasticProblem out;
  out.rows.resize(draw(random, 2, 3));
  out.heads = draw(random, 2, 3);
  if (one_in(random, 3)) out.max_degree = draw(random, 1, 2);
  out.cost =
      CostModel::transformer(draw(random, 1, 4), static_cast<double>(draw(random, 0, 40)) / 10,
                             draw(random, 0, 1) * draw(random, 0, 50));
  const std::int64_t longest = draw(random, 1, 6);
  for (std::int64_t n = draw(random, 3, 4); n > 0; --n) {
    pick_row(random, out.rows).push_back(draw(random, 0, longest));
  }
  out.machine = random_machine(random, out.ranks());
  if (one_in(random, 4)) add_costs(random, out);
  add_caps(random, out);
  return out;
}

}  // namespace knapformer::test
