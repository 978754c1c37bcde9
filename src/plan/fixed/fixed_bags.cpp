// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/fixed/fixed_bags.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

namespace knapformer {
namespace {

// The most that a rank of the bag exchanges around attention for a token of an evenly shared
// sequence.
Ticks attention_row_of(const StepTicks& ticks, const Bag& bag, std::int64_t shares,
                       std::int64_t ranks_per_node) {
  if (shares == 1) return 0;
  Ticks most = 0;
  for (std::int64_t rank = bag.first_rank; rank < bag.first_rank + bag.degree; ++rank) {
    const std::int64_t node = rank / ranks_per_node * ranks_per_node;
    const std::int64_t near = std::min(node + ranks_per_node, bag.first_rank + bag.degree) -
                              std::max(node, bag.first_rank) - 1;
    const std::int64_t far = bag.degree - 1 - near;
    most = std::max(most,
                    static_cast<Ticks>(
                        (Work{near} * ticks.attention_row[0] + Work{far} * ticks.attention_row[1]) *
                        (shares - 1) / (Work{bag.degree - 1} * shares * bag.degree)));
  }
  return most;
}

}  // namespace

FixedProblem::FixedProblem(const PlanProblem& of) : problem(of), ticks(of) {
  const std::int64_t per_node = problem.machine.ranks_per_node;
  const std::int64_t cap = std::min(problem.max_tokens, problem.max_attention_tokens);
  capped = cap < PlanRequest::kNoCap;
  using Kind = std::tuple<std::int64_t, Ticks, std::vector<std::int64_t>>;
  std::map<Kind, std::int64_t> kinds;
  std::vector<std::int64_t> bag_of_rank;
  bag_of_rank.reserve(problem.ranks);
  for (const Bag& bag : problem.topology.bags()) {
    FixedBag out{.first_rank = bag.first_rank, .degree = bag.degree};
    std::vector<std::int64_t> speeds(ticks.speeds().begin() + bag.first_rank,
                                     ticks.speeds().begin() + bag.first_rank + bag.degree);
    std::int64_t speed = 0;
    for (std::int64_t one : speeds) speed += one;
    out.inverse = StepTicks::inverse_of(speed);
    const std::int64_t shares = std::min(bag.degree, problem.heads);
    out.attention_row = attention_row_of(ticks, bag, shares, per_node);
    out.route_row = {bag.degree == 1 ? 0 : ticks.route_row[0] / bag.degree,
                     ticks.route_row[0] / bag.degree, ticks.route_row[1] / bag.degree};
    out.peers = ticks.attention_peer * (shares - 1);
    out.room =
        static_cast<std::int64_t>(std::min<Work>(Work{cap} * bag.degree, PlanRequest::kNoCap));
    out.node = bag.first_rank / per_node;
    if (problem.machine.speeds.empty()) speeds.clear();
    const auto size = static_cast<std::int64_t>(kinds.size());
    out.kind =
        kinds.try_emplace({bag.degree, out.attention_row, std::move(speeds)}, size).first->second;
    bag_of_rank.insert(bag_of_rank.end(), bag.degree, std::ssize(bags));
    bags.push_back(out);
  }
  items.reserve(problem.order.size());
  for (std::int64_t i : problem.order) {
    const std::int64_t home = problem.homes[i];
    items.push_back({ticks.of_work(problem.work.sequence(i)), problem.lengths[i], i,
                     bag_of_rank[home], home / per_node});
  }
  charge_senders();
}

void FixedProblem::charge_senders() {
  std::vector<std::int64_t> tokens(bags.size());
  std::vector<Ticks> of_bags(bags.size());
  const std::int64_t nodes = bags.back().node + 1;
  std::vector<Ticks> of_nodes(nodes), fair_nodes(nodes);
  Ticks all = 0;
  Work speed = 0;
  for (const FixedItem& item : items) {
    all += item.ticks;
    tokens[item.home_bag] += item.tokens;
    of_bags[item.home_bag] += compute(item, bags[item.home_bag]);
    of_nodes[bags[item.home_bag].node] += item.ticks;
  }
  for (std::int64_t one : ticks.speeds()) speed += one;
  fair = static_cast<Ticks>(divide_up(Work{all} * StepTicks::kSpeedOne, speed));
  for (const FixedBag& bag : bags) {
    const std::int64_t own = (std::int64_t{1} << 62) / bag.inverse;
    fair_nodes[bag.node] += static_cast<Ticks>(Work{fair} * own / StepTicks::kSpeedOne);
  }
  for (std::size_t b = 0; b < bags.size(); ++b) {
    FixedBag& bag = bags[b];
    if (of_bags[b] <= fair) continue;
    const Ticks row = bag.route_row[of_nodes[bag.node] > fair_nodes[bag.node] ? 2 : 1];
    bag.base = tokens[b] * row;
    bag.route_row = {bag.route_row[0] - row, 0, 0};
  }
}

bool FixedProblem::holds(const FixedItem& item, std::int64_t degree) const {
  const std::int64_t shares = problem.shares(item.sequence, degree);
  return divide_up(item.tokens, shares) <= problem.max_tokens &&
         Work{item.tokens} * divide_up(problem.heads, shares) <=
             Work{problem.max_attention_tokens} * problem.heads;
}

FixedProblem FixedProblem::by_tokens() const {
  FixedProblem out = *this;
  std::int64_t tokens = 0;
  for (const FixedItem& item : items) tokens += item.tokens;
  const int fraction = tokens < std::int64_t{1} << 40 ? 20 : 0;  // of a token on a rank of a bag
  std::ranges::stable_sort(out.items, std::ranges::greater(), &FixedItem::tokens);
  for (FixedItem& item : out.items) item.ticks = item.tokens << fraction;
  for (FixedBag& bag : out.bags) {
    bag.inverse = StepTicks::inverse_of(bag.degree * StepTicks::kSpeedOne);
    bag.attention_row = bag.peers = bag.base = 0;
    bag.route_row = {};
  }
  return out;
}

}  // namespace knapformer
