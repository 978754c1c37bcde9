// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/greedy.hpp"

#include <algorithm>
#include <iterator>

#include "plan/bag_loads.hpp"

namespace knapformer {
namespace {

// The bags of one term of the topology: equal degree, one after another.
struct BagClass {
  std::int64_t degree;
  std::int64_t first_rank;
  std::int64_t end_rank;
  BagLoads loads;

  bool contains(std::int64_t rank) const { return rank >= first_rank && rank < end_rank; }
  std::int64_t bag_of(std::int64_t rank) const { return (rank - first_rank) / degree; }
};

std::vector<BagClass> classes_of(const Topology& topology) {
  std::vector<BagClass> out;
  const auto bags = topology.bags();
  for (auto first = bags.begin(); first != bags.end();) {
    const std::int64_t degree = first->degree;
    const auto end =
        std::find_if(first, bags.end(), [=](const Bag& b) { return b.degree != degree; });
    const std::int64_t count = end - first;
    out.push_back({degree, first->first_rank, first->first_rank + count * degree, BagLoads(count)});
    first = end;
  }
  return out;
}

// One rank's part of a sequence while it is being shared out.
struct Share {
  std::int64_t rank;
  bool home;
  Work load;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;

  // At equal loads whoever has the tokens already.
  bool operator<(const Share& other) const {
    if (load != other.load) return load < other.load;
    return home != other.home ? home : rank < other.rank;
  }
};

class Greedy {
 public:
  Greedy(const PlanProblem& problem, GreedyRule rule)
      : problem_(problem),
        rule_(rule),
        classes_(classes_of(problem.topology)),
        rank_loads_(problem.ranks),
        mean_load_(divide_up(problem.work.total(), problem.ranks)),
        placed_(problem.lengths.size()) {
    chunks_.reserve(problem.order.size());
  }

  Assignment run() {
    for (std::int64_t i : problem_.order) {
      const Choice to = choose(i);
      share_out(i, classes_[to.bag_class], to.bag);
      classes_[to.bag_class].loads.add(to.bag, problem_.work.sequence(i));
    }
    return in_order();
  }

 private:
  struct Choice {
    std::int64_t bag_class;
    std::int64_t bag;
  };
  struct Slice {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };

  Choice choose(std::int64_t i) const {
    const Work work = problem_.work.sequence(i);
    const std::int64_t fewest = rule_ == GreedyRule::kLeastOccupied ? shares_to_hold(i) : 1;
    Choice best{-1, -1};
    Work best_key = 0;
    for (std::int64_t c = 0; c < std::ssize(classes_); ++c) {
      const BagClass& bags = classes_[c];
      const std::int64_t shares = problem_.shares(i, bags.degree);
      if (shares < fewest) continue;
      const std::int64_t bag = least_loaded(bags, problem_.homes[i]);
      Work key = bags.loads.load(bag) / bags.degree;
      if (rule_ == GreedyRule::kLeastAfterAdding) key += work / shares;
      if (best.bag < 0 || key < best_key) {
        best = {c, bag};
        best_key = key;
      }
    }
    return best;
  }

  // Bags of one class are alike, so among equally loaded ones the home of the sequence costs
  // nothing.
  static std::int64_t least_loaded(const BagClass& bags, std::int64_t home) {
    const std::int64_t least = bags.loads.least();
    if (!bags.contains(home)) return least;
    const std::int64_t near = bags.bag_of(home);
    return bags.loads.load(near) == bags.loads.load(least) ? near : least;
  }

  // The smallest number of shares none of which exceeds the mean load; at most as many as a bag can
  // give.
  std::int64_t shares_to_hold(std::int64_t i) const {
    std::int64_t most = 1;
    for (const BagClass& bags : classes_) most = std::max(most, problem_.shares(i, bags.degree));
    const Work needed = divide_up(problem_.work.sequence(i), std::max<Work>(mean_load_, 1));
    return static_cast<std::int64_t>(std::min<Work>(needed, most));
  }

  // Equal shares; what is left over goes to the least loaded ranks.
  void share_out(std::int64_t i, const BagClass& bags, std::int64_t bag) {
    const std::int64_t count = problem_.shares(i, bags.degree);
    const std::int64_t length = problem_.lengths[i];
    const std::int64_t first_rank = bags.first_rank + bag * bags.degree;
    shares_.clear();
    for (std::int64_t rank = first_rank; rank < first_rank + bags.degree; ++rank) {
      shares_.push_back({rank, rank == problem_.homes[i], rank_loads_[rank]});
    }
    least_first(count);
    shares_.resize(count);
    for (Share& share : shares_) {
      share.tokens = length / count;
      share.heads = problem_.heads / count;
    }
    least_first(problem_.heads % count);
    for (Share& share : std::span(shares_).first(problem_.heads % count)) {
      ++share.heads;
      share.load += problem_.work.chunk(i, {.heads = 1});
    }
    least_first(length % count);
    for (Share& share : std::span(shares_).first(length % count)) ++share.tokens;
    std::ranges::sort(shares_, {}, &Share::rank);
    append_chunks(i);
  }

  void least_first(std::int64_t count) {
    if (count > 0 && count < std::ssize(shares_)) {
      std::nth_element(shares_.begin(), shares_.begin() + count, shares_.end());
    }
  }

  void append_chunks(std::int64_t i) {
    placed_[i] = {std::ssize(chunks_), std::ssize(shares_)};
    Chunk chunk;
    for (const Share& share : shares_) {
      chunk = {share.rank, chunk.first_token + chunk.tokens, share.tokens,
               chunk.first_head + chunk.heads, share.heads};
      chunks_.push_back(chunk);
      rank_loads_[share.rank] += problem_.work.chunk(i, chunk);
      if (!share.home) moved_tokens_ += share.tokens;
    }
  }

  Assignment in_order() const {
    Assignment out;
    out.chunk_offsets.reserve(placed_.size() + 1);
    out.chunk_offsets.push_back(0);
    out.chunks.reserve(chunks_.size());
    for (const Slice& slice : placed_) {
      const auto first = chunks_.begin() + slice.first;
      out.chunks.insert(out.chunks.end(), first, first + slice.count);
      out.chunk_offsets.push_back(std::ssize(out.chunks));
    }
    out.largest_load = *std::ranges::max_element(rank_loads_);
    out.moved_tokens = moved_tokens_;
    return out;
  }

  const PlanProblem& problem_;
  const GreedyRule rule_;
  std::vector<BagClass> classes_;
  std::vector<Work> rank_loads_;
  const Work mean_load_;
  std::vector<Chunk> chunks_;  // in the order of placing
  std::vector<Slice> placed_;  // the chunks of every sequence
  std::vector<Share> shares_;  // of the sequence being placed
  std::int64_t moved_tokens_ = 0;
};

}  // namespace

Assignment assign(const PlanProblem& problem, GreedyRule rule) {
  return Greedy(problem, rule).run();
}

}  // namespace knapformer
