// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/fixed/fixed.hpp"

#include <algorithm>
#include <knapformer/plan/error.hpp>
#include <optional>
#include <string>

#include "plan/fixed/greedy.hpp"
#include "plan/fixed/improve.hpp"
#include "plan/fixed/relabel.hpp"
#include "plan/fixed/share_out.hpp"
#include "plan/message.hpp"

namespace knapformer {
namespace {

// Changes tried for every sequence, unless the caller says otherwise.
constexpr std::int64_t kChangesPerSequence = 24;
// Rounds of leaving more room for what sharing out needs above an even spread.
constexpr int kRounds = 4;

// An assignment, and what it leads to.
struct Solution {
  BagOfItem bag_of;
  Assignment assignment;
  Ticks ticks = -1;
  std::int64_t moved_tokens = 0;

  bool operator<(const Solution& other) const {
    if (ticks != other.ticks) return ticks < other.ticks;
    return moved_tokens < other.moved_tokens;
  }
};

std::int64_t moved_tokens(const PlanProblem& problem, const Assignment& assignment) {
  std::int64_t moved = 0;
  for (std::int64_t i = 0; i < std::ssize(problem.lengths); ++i) {
    for (std::int64_t c = assignment.chunk_offsets[i]; c < assignment.chunk_offsets[i + 1]; ++c) {
      const Chunk& chunk = assignment.chunks[c];
      if (chunk.rank != problem.homes[i]) moved += chunk.tokens;
    }
  }
  return moved;
}

class FixedSolver {
 public:
  explicit FixedSolver(const PlanProblem& problem) : problem_(problem), fixed_(problem) {}

  Assignment run() {
    if (fixed_.capped) require_possible();
    for (int round = 0; round < kRounds && !best_; ++round) {
      start();
      if (!best_ && fixed_.capped) pack();
      if (!best_ && !leave_more_room()) break;
    }
    if (!best_) refuse();
    if (problem_.budget != 0 && problem_.ranks > 1) search();
    return std::move(best_->assignment);
  }

 private:
  void start() {
    offer(greedy(fixed_, GreedyRule::kLeastAfterAdding));
    const auto bags = problem_.topology.bags();
    const bool alike = bags.front().degree == bags.back().degree && problem_.machine.speeds.empty();
    if (alike && !fixed_.capped) return;  // the rules agree
    offer(greedy(fixed_, GreedyRule::kLeastOccupied));
  }

  // Where balancing the work leaves somebody without room: balance tokens, or fill bag after bag.
  void pack() {
    const FixedProblem tokens = fixed_.by_tokens();
    const auto offer_packed = [&](const std::optional<BagOfItem>& packed) {
      if (!packed) return;
      std::vector<std::int64_t> bag_of_sequence(problem_.lengths.size());
      for (std::size_t n = 0; n < packed->size(); ++n) {
        bag_of_sequence[tokens.items[n].sequence] = (*packed)[n];
      }
      BagOfItem bag_of;
      for (const FixedItem& item : fixed_.items) bag_of.push_back(bag_of_sequence[item.sequence]);
      offer(std::move(bag_of));
    };
    offer_packed(greedy(tokens, GreedyRule::kLeastAfterAdding));
    offer_packed(best_fit(tokens));
    if (best_) return;
    // Allow bags to overflow, then level them.
    FixedProblem boundless = tokens;
    for (FixedBag& bag : boundless.bags) bag.room = PlanRequest::kNoCap;
    auto levelled = greedy(boundless, GreedyRule::kLeastAfterAdding);
    if (!levelled) return;
    std::int64_t budget = 16 * kChangesPerSequence * std::ssize(tokens.items);
    improve(boundless, *levelled, budget);
    offer_packed(levelled);
  }

  void offer(std::optional<BagOfItem> bag_of) {
    if (!bag_of) return;
    Solution solution{std::move(*bag_of), {}};
    solution.assignment = share_out(fixed_, solution.bag_of);
    if (fixed_.capped) {
      const std::int64_t excess = excess_of(problem_, solution.assignment);
      if (excess > 0) {
        least_excess_ = std::min(least_excess_, excess);
        return;
      }
    }
    if (!best_) {
      best_ = std::move(solution);
      return;
    }
    rate(*best_);
    rate(solution);
    if (solution < *best_) best_ = std::move(solution);
  }

  // Put off until there is something to compare with.
  void rate(Solution& solution) const {
    if (solution.ticks >= 0) return;
    solution.ticks = fixed_.ticks.largest(problem_, solution.assignment);
    solution.moved_tokens = moved_tokens(problem_, solution.assignment);
  }

  bool leave_more_room() {
    if (!fixed_.capped || least_excess_ == PlanRequest::kNoCap) return false;
    for (FixedBag& bag : fixed_.bags) bag.room -= bag.degree * least_excess_;
    return true;
  }

  // From the best so far, and from home.
  void search() {
    std::int64_t budget = problem_.budget;
    if (budget < 0) budget = kChangesPerSequence * std::ssize(fixed_.items);
    std::int64_t half = budget - budget / 2;
    BagOfItem greedy = best_->bag_of;
    relabel(fixed_, greedy);
    const Ticks limit = largest_unrouted(fixed_, greedy);
    refine(std::move(greedy), half);
    half += budget / 2;
    if (auto home = greedy_from_home(fixed_, limit)) refine(std::move(*home), half);
  }

  void refine(BagOfItem bag_of, std::int64_t& budget) {
    improve(fixed_, bag_of, budget);
    send_home(fixed_, bag_of, budget);
    offer(std::move(bag_of));
  }

  [[noreturn]] void refuse_cap(const std::string& what, std::int64_t cap, std::int64_t needed,
                               const char* which) const {
    throw Error(what + ", above the cap of " + std::to_string(cap) + ' ' + which +
                " per rank; raise it to at least " + std::to_string(needed) +
                ", use more ranks or larger bags, or load fewer tokens");
  }

  void require_possible() const {
    std::int64_t total = 0;
    for (const FixedItem& item : fixed_.items) total += item.tokens;
    const auto mean = static_cast<std::int64_t>(divide_up(total, problem_.ranks));
    const std::string group = "the group has " + plural(total, "token") + ", on " +
                              plural(problem_.ranks, "rank") + " at least " + std::to_string(mean) +
                              " on one";
    if (mean > problem_.max_tokens) refuse_cap(group, problem_.max_tokens, mean, "tokens");
    if (mean > problem_.max_attention_tokens) {
      refuse_cap(group, problem_.max_attention_tokens, mean, "attention-resident tokens");
    }
    std::int64_t largest = 1;
    for (const FixedBag& bag : fixed_.bags) largest = std::max(largest, bag.degree);
    for (const FixedItem& item : fixed_.items) {
      if (!fixed_.holds(item, largest)) refuse_sequence(item, largest);
    }
  }

  [[noreturn]] void refuse_sequence(const FixedItem& item, std::int64_t largest) const {
    const std::int64_t shares = problem_.shares(item.sequence, largest);
    const auto tokens = static_cast<std::int64_t>(divide_up(item.tokens, shares));
    const auto attention = static_cast<std::int64_t>(
        divide_up(Work{item.tokens} * divide_up(problem_.heads, shares), problem_.heads));
    const std::string what = "sequence " + std::to_string(item.sequence) + " (home " +
                             std::to_string(problem_.homes[item.sequence]) + ", " +
                             plural(item.tokens, "token") + ") is shared by at most " +
                             plural(shares, "rank") + " in topology " + problem_.topology.name() +
                             ", one of which needs ";
    if (tokens > problem_.max_tokens) {
      refuse_cap(what + std::to_string(tokens), problem_.max_tokens, tokens, "tokens");
    }
    refuse_cap(what + std::to_string(attention), problem_.max_attention_tokens, attention,
               "attention-resident tokens");
  }

  [[noreturn]] void refuse() const {
    std::int64_t total = 0;
    for (const FixedItem& item : fixed_.items) total += item.tokens;
    const auto cap = [](std::int64_t value) {
      return value == PlanRequest::kNoCap ? std::string("any number of") : std::to_string(value);
    };
    std::string message = "could not find a plan of topology " + problem_.topology.name() +
                          " with at most " + cap(problem_.max_tokens) + " tokens and " +
                          cap(problem_.max_attention_tokens) +
                          " attention-resident tokens per rank for " + plural(total, "token") +
                          " on " + plural(problem_.ranks, "rank") + ", " +
                          std::to_string(divide_up_64(total, problem_.ranks)) + " on average";
    if (least_excess_ < PlanRequest::kNoCap) {
      message += "; the best found exceeds a cap by " + std::to_string(least_excess_);
    }
    throw Error(message + "; raise the cap, or use larger or elastic bags");
  }

  static std::int64_t divide_up_64(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(divide_up(a, b));
  }

  const PlanProblem& problem_;
  FixedProblem fixed_;
  std::optional<Solution> best_;
  std::int64_t least_excess_ = PlanRequest::kNoCap;
};

}  // namespace

Assignment assign_fixed(const PlanProblem& problem) { return FixedSolver(problem).run(); }

}  // namespace knapformer
