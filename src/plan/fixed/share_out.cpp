// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/fixed/share_out.hpp"

#include <algorithm>
#include <numeric>

namespace knapformer {
namespace {

// One rank's part of a sequence while it is being shared out.
struct Share {
  std::int64_t rank;
  bool home;
  bool full;          // not even an equal share is below its caps
  std::int64_t held;  // tokens, if that matters
  Ticks load;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;

  // At equal loads whoever has the tokens already.
  bool operator<(const Share& other) const {
    if (full != other.full) return other.full;
    if (held != other.held) return held < other.held;
    if (load != other.load) return load < other.load;
    return home != other.home ? home : rank < other.rank;
  }
};

class Sharing {
 public:
  explicit Sharing(const FixedProblem& fixed)
      : fixed_(fixed),
        problem_(fixed.problem),
        equal_(problem_.machine.speeds.empty() && !fixed.capped),
        loads_(problem_.ranks),
        tokens_(fixed.capped ? problem_.ranks : 0),
        head_tokens_(tokens_.size()),
        placed_(problem_.lengths.size()) {
    chunks_.reserve(fixed.items.size());
  }

  Assignment run(const BagOfItem& bag_of) {
    for (std::size_t n = 0; n < bag_of.size(); ++n) {
      share_out(fixed_.items[n], fixed_.bags[bag_of[n]]);
    }
    return in_order();
  }

 private:
  struct Slice {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };

  void share_out(const FixedItem& item, const FixedBag& bag) {
    const std::int64_t i = item.sequence;
    const std::int64_t count = problem_.shares(i, bag.degree);
    gather(item, bag, count);
    least_first(count);
    shares_.resize(count);
    if (equal_) {
      share_equally(i, count);
    } else {
      share_by_speed(i);
    }
    std::ranges::sort(shares_, {}, &Share::rank);
    append_chunks(i);
  }

  void gather(const FixedItem& item, const FixedBag& bag, std::int64_t count) {
    const std::int64_t home = problem_.homes[item.sequence];
    shares_.clear();
    for (std::int64_t rank = bag.first_rank; rank < bag.first_rank + bag.degree; ++rank) {
      Share share{rank, rank == home, false, 0, loads_[rank]};
      if (!problem_.machine.speeds.empty() && count < bag.degree) {
        share.load += StepTicks::shared(item.ticks / count, inverse(rank));
      }
      if (fixed_.capped) {
        share.full = token_limit(rank) < item.tokens / count ||
                     head_limit(rank, item.tokens) < problem_.heads / count;
        share.held = tokens_[rank];
      }
      shares_.push_back(share);
    }
  }

  std::int64_t inverse(std::int64_t rank) const {
    return StepTicks::inverse_of(fixed_.ticks.speeds()[rank]);
  }
  std::int64_t token_limit(std::int64_t rank) const { return problem_.max_tokens - tokens_[rank]; }
  std::int64_t head_limit(std::int64_t rank, std::int64_t length) const {
    const Work room = Work{problem_.max_attention_tokens} * problem_.heads - head_tokens_[rank];
    return static_cast<std::int64_t>(std::min<Work>(room / length, problem_.heads));
  }

  void share_equally(std::int64_t i, std::int64_t count) {
    const std::int64_t length = problem_.lengths[i];
    for (Share& share : shares_) {
      share.tokens = length / count;
      share.heads = problem_.heads / count;
    }
    least_first(problem_.heads % count);
    for (Share& share : std::span(shares_).first(problem_.heads % count)) {
      ++share.heads;
      share.load += fixed_.ticks.of_work(problem_.work.chunk(i, {.heads = 1}));
    }
    least_first(length % count);
    for (Share& share : std::span(shares_).first(length % count)) ++share.tokens;
  }

  void least_first(std::int64_t count) {
    if (count > 0 && count < std::ssize(shares_)) {
      std::nth_element(shares_.begin(), shares_.begin() + count, shares_.end());
    }
  }

  void share_by_speed(std::int64_t i) {
    const std::int64_t length = problem_.lengths[i];
    for (Share& share : shares_) share.held = fixed_.capped ? as_tokens(share.rank) : 0;
    std::sort(shares_.begin(), shares_.end());
    apportion(problem_.heads, &Share::heads,
              [&](std::int64_t rank) { return head_limit(rank, length); });
    for (Share& share : shares_) {
      share.held = fixed_.capped ? tokens_[share.rank] : 0;
      const Work work = problem_.work.chunk(i, {.heads = share.heads});
      share.load += StepTicks::shared(fixed_.ticks.of_work(work), inverse(share.rank));
    }
    std::sort(shares_.begin(), shares_.end());
    apportion(length, &Share::tokens, [&](std::int64_t rank) { return token_limit(rank); });
  }

  std::int64_t as_tokens(std::int64_t rank) const {
    return static_cast<std::int64_t>(head_tokens_[rank] / problem_.heads);
  }

  // At least one for each share, in proportion to speed as far as the limits allow; what is left
  // over goes round in order.
  template <class Limit>
  void apportion(std::int64_t total, std::int64_t Share::*part, Limit limit_of) {
    const auto limit = [&](const Share& share) {
      return fixed_.capped ? limit_of(share.rank) : total;
    };
    Work speed = 0;
    for (const Share& share : shares_) speed += fixed_.ticks.speeds()[share.rank];
    std::int64_t left = total;
    for (Share& share : shares_) {
      const auto fair =
          static_cast<std::int64_t>(Work{total} * fixed_.ticks.speeds()[share.rank] / speed);
      share.*part = std::max<std::int64_t>(std::min(fair, limit(share)), 1);
      left -= share.*part;
    }
    while (left < 0) {
      ++left;
      --((*std::ranges::max_element(shares_, {}, part)).*part);
    }
    while (left > 0) {
      const std::int64_t open = std::ranges::count_if(
          shares_, [&](const Share& share) { return share.*part < limit(share); });
      const std::int64_t each = std::max<std::int64_t>(left / std::max<std::int64_t>(open, 1), 1);
      for (Share& share : shares_) {
        const std::int64_t most = open > 0 ? limit(share) - share.*part : each;
        const std::int64_t more = std::clamp<std::int64_t>(most, 0, std::min(each, left));
        share.*part += more;
        left -= more;
      }
    }
  }

  void append_chunks(std::int64_t i) {
    placed_[i] = {std::ssize(chunks_), std::ssize(shares_)};
    Chunk chunk;
    for (const Share& share : shares_) {
      chunk = {share.rank, chunk.first_token + chunk.tokens, share.tokens,
               chunk.first_head + chunk.heads, share.heads};
      chunks_.push_back(chunk);
      const Ticks ticks = fixed_.ticks.of_work(problem_.work.chunk(i, chunk));
      loads_[share.rank] += equal_ ? ticks : StepTicks::shared(ticks, inverse(share.rank));
      if (!fixed_.capped) continue;
      tokens_[share.rank] += share.tokens;
      head_tokens_[share.rank] += Work{problem_.lengths[i]} * share.heads;
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
    return out;
  }

  const FixedProblem& fixed_;
  const PlanProblem& problem_;
  const bool equal_;
  std::vector<Ticks> loads_;
  std::vector<std::int64_t> tokens_;  // of every rank, if there are caps
  std::vector<Work> head_tokens_;     // length times heads
  std::vector<Chunk> chunks_;         // in the order of placing
  std::vector<Slice> placed_;         // the chunks of every sequence
  std::vector<Share> shares_;         // of the sequence being placed
};

}  // namespace

Assignment share_out(const FixedProblem& problem, const BagOfItem& bag_of) {
  return Sharing(problem).run(bag_of);
}

std::int64_t excess_of(const PlanProblem& problem, const Assignment& assignment) {
  std::vector<std::int64_t> tokens(problem.ranks);
  std::vector<Work> head_tokens(problem.ranks);
  for (std::int64_t i = 0; i < std::ssize(problem.lengths); ++i) {
    for (std::int64_t c = assignment.chunk_offsets[i]; c < assignment.chunk_offsets[i + 1]; ++c) {
      const Chunk& chunk = assignment.chunks[c];
      tokens[chunk.rank] += chunk.tokens;
      head_tokens[chunk.rank] += Work{problem.lengths[i]} * chunk.heads;
    }
  }
  const std::int64_t most = *std::ranges::max_element(tokens);
  const auto attention =
      static_cast<std::int64_t>(divide_up(*std::ranges::max_element(head_tokens), problem.heads));
  return std::max(
      {std::int64_t{0}, most - problem.max_tokens, attention - problem.max_attention_tokens});
}

}  // namespace knapformer
