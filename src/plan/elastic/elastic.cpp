// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/elastic/elastic.hpp"

#include <algorithm>
#include <iterator>
#include <knapformer/plan/error.hpp>
#include <numeric>
#include <string>
#include <utility>

#include "plan/elastic/pod_balance.hpp"
#include "plan/elastic/pod_filling.hpp"
#include "plan/elastic/search.hpp"
#include "plan/fixed/fixed.hpp"
#include "plan/message.hpp"
#include "plan/work_order.hpp"

namespace knapformer {
namespace {

[[noreturn]] void throw_no_room(const PlanProblem& problem, std::int64_t i) {
  const auto cap = [](std::int64_t most) {
    return most == PlanRequest::kNoCap ? std::string("no limit") : std::to_string(most);
  };
  std::int64_t tokens = 0;
  for (const std::int64_t length : problem.lengths) tokens += length;
  throw Error("no room was found for sequence " + std::to_string(i) + " of " +
              plural(problem.lengths[i], "token") + " within the caps of a rank: tokens " +
              cap(problem.max_tokens) + ", attention-resident tokens " +
              cap(problem.max_attention_tokens) + "; there are " + plural(tokens, "token") +
              " on " + plural(problem.ranks, "rank") + ", " +
              std::to_string(tokens / problem.ranks) +
              " on average. Raise the caps, use more ranks or shorter sequences");
}

// The default budget: up to 12,000 sequences it grows with them, then it no longer matters to them
// all.
constexpr std::int64_t kFewChanges = 2400;
constexpr std::int64_t kChangesPerSequence = 2;
constexpr std::int64_t kMostChanges = 24000;

Topology equal_bags(std::int64_t count, std::int64_t degree) {
  return Topology::parse(
      std::string("g").append(std::to_string(degree)).append("n").append(std::to_string(count)));
}

PlanProblem in_bags(const PlanProblem& problem, const std::vector<std::int64_t>& order,
                    const Topology& topology) {
  return {.topology = topology,
          .ranks = problem.ranks,
          .machine = problem.machine,
          .work = problem.work,
          .heads = problem.heads,
          .homes = problem.homes,
          .lengths = problem.lengths,
          .max_tokens = problem.max_tokens,
          .max_attention_tokens = problem.max_attention_tokens,
          .budget = problem.budget == 0 ? 0 : kFewChanges,
          .order = order};
}

class Elastic {
 public:
  explicit Elastic(const PlanProblem& problem)
      : problem_(problem),
        model_(problem),
        pods_(problem.ranks, problem.machine.ranks_per_node),
        times_(problem, model_, pods_),
        sharing_(problem, times_),
        work_order_(problem),
        sequences_(std::ssize(problem.lengths) - std::ranges::count(problem.lengths, 0)),
        budget_(problem.budget) {
    require_countable();
    if (budget_ < 0)
      budget_ = kFewChanges + std::min(kChangesPerSequence * sequences_, kMostChanges);
    const std::int64_t fillings = budget_ / 2 / std::max<std::int64_t>(sequences_, 1);
    rounds_ = fillings >= 12 ? 3 : fillings >= 6 ? 2 : 1;
    tries_ = std::clamp<std::int64_t>(fillings / rounds_, 1, 8);
  }

  Assignment run() {
    place_wide();
    find_narrow();
    fill_evenly();
    place_refused();
    if (capped() || is_poor()) try_fixed_bags();
    if (!unplaced_.empty()) throw_no_room(problem_, unplaced_.front());
    if (budget_ > 0) ElasticSearch(problem_, order(), pods_, times_).run(budget_);
    stay_home_if_faster();
    return chunks();
  }

 private:
  // Shares of some sequences, to return to.
  struct Snapshot {
    std::vector<std::int64_t> counts;
    std::vector<Share> shares;

    void take(const StepTimes& times, std::span<const std::int64_t> sequences) {
      counts.clear();
      shares.clear();
      for (const std::int64_t i : sequences) {
        const auto own = times.shares(i);
        counts.push_back(std::ssize(own));
        shares.insert(shares.end(), own.begin(), own.end());
      }
    }
    void place(StepTimes& times, std::span<const std::int64_t> sequences) const {
      std::int64_t first = 0;
      for (std::size_t s = 0; s < sequences.size(); ++s) {
        times.place(sequences[s], std::span(shares).subspan(first, counts[s]));
        first += counts[s];
      }
    }
  };

  // Rows times heads are counted in 64 bits.
  void require_countable() const {
    Work tokens = 0;
    for (const std::int64_t length : problem_.lengths) tokens += length;
    if (tokens * problem_.heads < Work{1} << 61) return;
    throw Error("the group has " + std::to_string(static_cast<std::int64_t>(tokens)) +
                " tokens: too many for elastic bags of " + plural(problem_.heads, "head") +
                ", which can count 2^61 tokens times heads; use a fixed topology");
  }

  // What needs more ranks than a pod has gets consecutive free ranks, from its home's pod on.
  void place_wide() {
    constexpr Ticks kFair = kIdeal + kIdeal / 32;
    const std::int64_t few = pods_.size() * 3 / 4;
    const auto is_wide = [&](std::int64_t i) {
      return model_.whole(i) > few * kFair && sharing_.most_ranks(i) > few;
    };
    Work least = problem_.work.largest() + 1;
    for (std::int64_t i = 0; i < std::ssize(problem_.lengths); ++i) {
      if (is_wide(i)) least = std::min(least, problem_.work.sequence(i));
    }
    std::vector<std::int64_t> bag;
    for (const std::int64_t i : work_order_.with_more_than(least - 1)) {
      if (!is_wide(i)) continue;
      const std::int64_t wanted =
          std::min(sharing_.most_ranks(i), (model_.whole(i) + kFair - 1) / kFair);
      bag.clear();
      const std::int64_t first = pods_.first(pods_.of(problem_.homes[i]));
      for (std::int64_t k = 0; k < problem_.ranks && std::ssize(bag) < wanted; ++k) {
        const std::int64_t rank = (first + k) % problem_.ranks;
        if (times_.time(rank) < kIdeal / 8) bag.push_back(rank);
      }
      const auto shares = bag.empty() ? std::span<const Share>() : sharing_.level(i, bag);
      if (!shares.empty()) times_.place(i, shares);
    }
  }

  // The others, from the most work to the least; without caps those of one pod after another, for
  // memory is read faster in order.
  void find_narrow() {
    narrow_.reserve(problem_.lengths.size());
    const auto add = [&](const std::vector<std::int64_t>& sequences) {
      std::ranges::remove_copy_if(sequences, std::back_inserter(narrow_),
                                  [&](std::int64_t i) { return times_.placed(i); });
    };
    if (capped()) return add(order());
    const auto& homes = problem_.homes;
    for (std::int64_t first = 0, end = 0; first < std::ssize(homes); first = end) {
      const std::int64_t pod = pods_.of(homes[first]);
      while (end < std::ssize(homes) && pods_.contains(pod, homes[end])) ++end;
      add(work_order_.of(first, end));
    }
  }

  const std::vector<std::int64_t>& order() {
    if (order_.empty()) order_ = work_order_.all();
    return order_;
  }

  // Where the caps leave room, whatever it costs.
  void place_refused() {
    for (const std::int64_t i : narrow_) {
      if (!times_.placed(i) && !place_anywhere(i)) unplaced_.push_back(i);
    }
  }

  bool place_anywhere(std::int64_t i) {
    std::vector<std::int64_t> ranks(problem_.ranks);
    std::iota(ranks.begin(), ranks.end(), 0);
    const auto by = [&](auto key) {
      std::ranges::stable_sort(ranks, {}, key);
      const std::int64_t most = sharing_.most_ranks(i);
      for (std::int64_t count = 1; count <= most; ++count) {
        const auto shares = sharing_.level(i, std::span(ranks).first(count));
        if (shares.empty()) continue;
        times_.place(i, shares);
        return true;
      }
      return false;
    };
    return by([&](std::int64_t rank) { return times_.time(rank); }) ||
           by([&](std::int64_t rank) { return times_.tokens(rank); }) ||
           by([&](std::int64_t rank) { return times_.attention_tokens(rank); });
  }

  // Far from the ideal, in a problem small enough to try something else.
  bool is_poor() const {
    constexpr std::int64_t kMostSequences = 10000;
    return budget_ > 0 && sequences_ <= kMostSequences && slowest() > kIdeal + kIdeal / 16;
  }

  // Equal bags mix long and short sequences on every rank, which a tight cap may need.
  void try_fixed_bags() {
    Snapshot best;
    Ticks least = slowest();
    const auto& all = order();
    bool found = unplaced_.empty();
    best.take(times_, all);
    for (const std::int64_t degree : {std::int64_t{1}, std::int64_t{2}, std::int64_t{4},
                                      std::int64_t{8}, std::int64_t{16}, problem_.ranks}) {
      if (problem_.ranks % degree != 0 || degree > problem_.topology.max_degree()) continue;
      if (degree > 8 && found) continue;  // much is exchanged in such bags
      for (const std::int64_t i : all) {
        if (times_.placed(i)) times_.remove(i);
      }
      if (!place_in_bags(degree)) continue;
      if (found && slowest() >= least) continue;
      found = true;
      least = slowest();
      best.take(times_, all);
    }
    if (found) unplaced_.clear();
    for (const std::int64_t i : all) {
      if (times_.placed(i)) times_.remove(i);
    }
    best.place(times_, all);
  }

  bool place_in_bags(std::int64_t degree) {
    const Topology bags = equal_bags(problem_.ranks / degree, degree);
    Assignment assignment;
    try {
      assignment = assign_fixed(in_bags(problem_, order(), bags));
    } catch (const Error&) {  // these bags leave no room either
      return false;
    }
    std::vector<Share> shares;
    for (const std::int64_t i : order()) {
      shares.clear();
      for (std::int64_t c = assignment.chunk_offsets[i]; c < assignment.chunk_offsets[i + 1]; ++c) {
        const Chunk& chunk = assignment.chunks[c];
        shares.push_back({chunk.rank, chunk.tokens, chunk.heads});
      }
      times_.place(i, shares);
    }
    return true;
  }

  // Where exchanges are so slow that nothing pays.
  void stay_home_if_faster() {
    std::vector<Ticks> work(problem_.ranks);
    std::vector<std::int64_t> tokens(problem_.ranks);
    for (std::int64_t i = 0; i < std::ssize(problem_.lengths); ++i) {
      work[problem_.homes[i]] += model_.whole(i);
      tokens[problem_.homes[i]] += problem_.lengths[i];
    }
    const std::int64_t cap = std::min(problem_.max_tokens, problem_.max_attention_tokens);
    Ticks slowest_at_home = 0;
    for (std::int64_t rank = 0; rank < problem_.ranks; ++rank) {
      slowest_at_home = std::max(slowest_at_home, model_.at_speed_of(rank, work[rank]));
      if (tokens[rank] > cap) return;
    }
    if (slowest_at_home > slowest()) return;
    for (std::int64_t i = 0; i < std::ssize(problem_.lengths); ++i) {
      if (problem_.lengths[i] == 0) continue;
      times_.remove(i);
      times_.place_whole(i, problem_.homes[i]);
    }
  }

  Ticks slowest() const {
    Ticks out = 0;
    for (std::int64_t rank = 0; rank < problem_.ranks; ++rank)
      out = std::max(out, times_.time(rank));
    return out;
  }

  bool capped() const {
    return problem_.max_tokens < PlanRequest::kNoCap ||
           problem_.max_attention_tokens < PlanRequest::kNoCap;
  }

  // What splitting costs a pod is known once it is filled: then sequences are dealt out anew.
  void fill_evenly() {
    const auto& all = narrow_;
    std::vector<Ticks> overhead(pods_.count());
    for (std::int64_t rank = 0; rank < problem_.ranks; ++rank) {
      overhead[pods_.of(rank)] += model_.work_within(rank, times_.time(rank));
    }
    Snapshot best;
    Work least = 0;
    for (std::int64_t round = 0; round < rounds_; ++round) {
      const PodBalance balance(problem_, model_, pods_, all, overhead);
      for (std::int64_t pod = 0; pod < pods_.count(); ++pod) {
        fill(pod, balance.sequences(pod), balance.level(pod));
      }
      if (rounds_ == 1) return;
      for (std::int64_t pod = 0; pod < pods_.count(); ++pod) {
        Ticks above = 0;
        for (std::int64_t r = pods_.first(pod); r < pods_.end(pod); ++r) {
          above += model_.work_within(r, times_.time(r) - balance.level(pod));
        }
        overhead[pod] += above;
      }
      if (round == 0 || times_.excess() < least) {
        least = times_.excess();
        best.take(times_, all);
      }
      for (const std::int64_t i : all) times_.remove(i);
    }
    best.place(times_, all);
  }

  // Tries several times by which all ranks shall finish, and takes the best.
  void fill(std::int64_t pod, std::span<const std::int64_t> sequences, Ticks level) {
    constexpr std::int64_t kSteps[] = {3, 5, 1, 7, 2, 4, 6, 0};  // the most promising first
    PodFilling filling(problem_, pods_, times_);
    const Ticks step = model_.per_bag_peer() / 2 + kIdeal / 1024;
    const bool mixed = capped();
    Snapshot best;
    std::pair<std::int64_t, Work> least;
    for (std::int64_t k = 0; k < tries_; ++k) {
      const auto when = mixed && k % 2 == 0 ? PodFilling::Long::kLast : PodFilling::Long::kFirst;
      const std::int64_t refused =
          filling.run(pod, sequences, level + step * kSteps[mixed ? k / 2 : k], when);
      if (tries_ == 1 && rounds_ == 1) return;
      budget_ -= std::ssize(sequences);
      const auto rating = std::pair(refused, times_.excess());
      if (k == 0 || rating < least) {
        least = rating;
        best.take(times_, sequences);
      }
      for (const std::int64_t i : sequences) times_.remove(i);
    }
    best.place(times_, sequences);
  }

  Assignment chunks() const {
    Assignment out;
    out.chunk_offsets.assign(1, 0);
    out.chunk_offsets.reserve(problem_.lengths.size() + 1);
    for (std::int64_t i = 0; i < std::ssize(problem_.lengths); ++i) {
      out.chunk_offsets.push_back(out.chunk_offsets.back() + std::ssize(times_.shares(i)));
    }
    out.chunks.reserve(out.chunk_offsets.back());
    for (std::int64_t i = 0; i < std::ssize(problem_.lengths); ++i) {
      Chunk chunk;
      for (const Share& share : times_.shares(i)) {
        chunk = {share.rank, chunk.first_token + chunk.tokens, share.tokens,
                 chunk.first_head + chunk.heads, share.heads};
        out.chunks.push_back(chunk);
      }
    }
    return out;
  }

  const PlanProblem& problem_;
  const TickModel model_;
  const Pods pods_;
  StepTimes times_;
  Sharing sharing_;
  std::vector<std::int64_t> unplaced_;
  std::vector<std::int64_t> narrow_;  // all but the widest
  WorkOrder work_order_;
  std::vector<std::int64_t> order_;  // of all, once it is asked for
  std::int64_t sequences_;           // with tokens
  std::int64_t budget_;
  std::int64_t rounds_, tries_;
};

}  // namespace

Assignment assign_elastic(const PlanProblem& problem) { return Elastic(problem).run(); }

}  // namespace knapformer
