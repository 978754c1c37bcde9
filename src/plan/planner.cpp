// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <chrono>
#include <knapformer/plan/error.hpp>
#include <knapformer/plan/planner.hpp>
#include <string>

#include "plan/elastic/elastic.hpp"
#include "plan/fixed/fixed.hpp"
#include "plan/lower_bound.hpp"
#include "plan/message.hpp"
#include "plan/require_range.hpp"
#include "plan/work_order.hpp"

namespace knapformer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::int64_t> homes_of(const PlanRequest& request) {
  const auto offsets = request.offsets;
  const std::int64_t ranks = std::max<std::int64_t>(std::ssize(offsets) - 1, 0);
  if (!request.topology.is_elastic() && request.topology.ranks() != ranks) {
    throw Error("topology " + request.topology.name() + " is for " +
                plural(request.topology.ranks(), "rank") + ", but there are lengths for " +
                std::to_string(ranks));
  }
  if (ranks == 0) {
    throw Error(
        "there are lengths for 0 ranks; give those of at least one rank (offsets have one "
        "entry more than there are ranks)");
  }
  if (offsets.front() != 0 || offsets.back() != std::ssize(request.lengths) ||
      !std::ranges::is_sorted(offsets)) {
    throw Error("the offsets of the ranks' sequences must rise from 0 to the number of lengths, " +
                std::to_string(request.lengths.size()));
  }
  std::vector<std::int64_t> homes(request.lengths.size());
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::fill(homes.begin() + offsets[rank], homes.begin() + offsets[rank + 1], rank);
  }
  return homes;
}

// Every sequence whole on its home.
Assignment stay_home(const PlanProblem& problem) {
  Assignment out;
  out.chunk_offsets.push_back(0);
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    if (problem.lengths[i] > 0) {
      out.chunks.push_back({problem.homes[i], 0, problem.lengths[i], 0, problem.heads});
    }
    out.chunk_offsets.push_back(std::ssize(out.chunks));
  }
  return out;
}

Assignment solve(const PlanProblem& problem) {
  return problem.topology.is_elastic() ? assign_elastic(problem) : assign_fixed(problem);
}

// Costs of the caller are in a unit of their own, in which traffic cannot be weighed.
Machine machine_to_plan_for(const PlanRequest& request) {
  Machine machine = request.machine;
  if (request.costs.empty()) return machine;
  const Machine free = Machine::without_communication();
  machine.bandwidth_within = free.bandwidth_within;
  machine.bandwidth_between = free.bandwidth_between;
  machine.latency = free.latency;
  return machine;
}

Plan make(const PlanRequest& request, Assignment (*assigned)(const PlanProblem&)) {
  const auto start = Clock::now();
  std::vector<std::int64_t> homes = homes_of(request);
  const std::int64_t ranks = std::ssize(request.offsets) - 1;
  request.machine.check(ranks);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  require_range("the cap on tokens", request.max_tokens_per_rank, 0, kMost);
  require_range("the cap on attention-resident tokens", request.max_attention_tokens_per_rank, 0,
                kMost);
  require_range("the search budget", request.budget, PlanRequest::kDefaultBudget, kMost);
  const Machine machine = machine_to_plan_for(request);
  const GroupWork work(request.cost, request.heads, request.lengths, request.costs);
  PlanProblem problem{.topology = request.topology,
                      .ranks = ranks,
                      .machine = machine,
                      .work = work,
                      .heads = request.heads,
                      .homes = homes,
                      .lengths = request.lengths,
                      .max_tokens = request.max_tokens_per_rank,
                      .max_attention_tokens = request.max_attention_tokens_per_rank,
                      .budget = request.budget};
  if (!request.topology.is_elastic()) problem.order = WorkOrder(problem).all();
  Assignment solution = assigned(problem);
  const PlanBounds bounds = lower_bounds(problem);
  return Plan(ranks, request.heads, request.cost, std::move(homes),
              {request.lengths.begin(), request.lengths.end()}, std::move(solution.chunk_offsets),
              std::move(solution.chunks), request.costs, machine, bounds, seconds_since(start));
}

}  // namespace

Plan make_plan(const PlanRequest& request) { return make(request, solve); }

Plan make_home_plan(const PlanRequest& request) { return make(request, stay_home); }

}  // namespace knapformer
