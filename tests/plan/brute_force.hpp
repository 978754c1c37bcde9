// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <functional>
#include <numeric>

#include "plan/elastic_evaluation.hpp"

namespace knapformer::test {

/// Tries every plan of a problem with at most 3 ranks: all bags, token shares and head shares.
class BruteForce {
 public:
  explicit BruteForce(const ElasticProblem& problem) : problem_(problem) {
    for (std::int64_t rank = 0; rank < problem.ranks(); ++rank) {
      speeds_ += problem.speed(rank);
      for (std::size_t i = 0; i < problem.rows[rank].size(); ++i) {
        const std::int64_t length = problem.rows[rank][i];
        if (length == 0) continue;
        add_options(length, problem.costs.empty() ? nullptr : &problem.costs[rank][i]);
      }
    }
  }

  /// The smallest largest load of any plan within the caps, but `known` if none is below that.
  double least_load(double known) {
    best_ = known;
    if (work_ / speeds_ < best_ * (1 - kEqual)) search(0, {});
    return best_;
  }

 private:
  static constexpr double kEqual = 1e-12;

  // Of a rank: sums over the sequences placed.
  struct Rank {
    double load = 0;
    std::int64_t tokens = 0;
    std::int64_t head_tokens = 0;
  };
  using State = std::array<Rank, 3>;

  // Every way to write `sum` as `parts` numbers of at least 1, in order.
  static void compositions(std::int64_t sum, std::int64_t parts, std::vector<std::int64_t>& head,
                           const std::function<void()>& use) {
    if (parts == 1) {
      head.push_back(sum);
      use();
      head.pop_back();
      return;
    }
    for (std::int64_t first = 1; first <= sum - parts + 1; ++first) {
      head.push_back(first);
      compositions(sum - first, parts - 1, head, use);
      head.pop_back();
    }
  }

  void add_options(std::int64_t length, const std::int64_t* cost) {
    auto& options = options_.emplace_back();
    for (unsigned bag = 1; bag < 1u << problem_.ranks(); ++bag) {
      const std::int64_t degree = std::popcount(bag);
      if (degree > std::min({problem_.max_degree, problem_.heads, length})) continue;
      std::vector<std::int64_t> tokens, heads;
      compositions(length, degree, tokens, [&] {
        compositions(problem_.heads, degree, heads, [&] {
          State& option = options.emplace_back();
          for (std::int64_t rank = 0, k = 0; rank < problem_.ranks(); ++rank) {
            if ((bag >> rank & 1u) == 0) continue;
            const Chunk chunk{rank, 0, tokens[k], 0, heads[k]};
            option[rank] = {
                Evaluation::work_of(problem_, length, chunk, cost) / problem_.speed(rank),
                tokens[k], length * heads[k]};
            ++k;
          }
        });
      });
    }
    const Chunk whole{0, 0, length, 0, problem_.heads};
    work_ += Evaluation::work_of(problem_, length, whole, cost);
  }

  // The sum, unless a cap is broken or it leads to nothing better.
  bool add(State& to, const State& option) const {
    for (std::int64_t rank = 0; rank < problem_.ranks(); ++rank) {
      Rank& sum = to[rank];
      sum.load += option[rank].load;
      sum.tokens += option[rank].tokens;
      sum.head_tokens += option[rank].head_tokens;
      if (sum.load >= best_ * (1 - kEqual) || sum.tokens > problem_.max_tokens) return false;
      if (sum.head_tokens / problem_.heads > problem_.max_attention_tokens ||
          (sum.head_tokens / problem_.heads == problem_.max_attention_tokens &&
           sum.head_tokens % problem_.heads > 0)) {
        return false;
      }
    }
    return true;
  }

  void search(std::size_t sequence, const State& state) {
    if (sequence == options_.size()) {
      best_ = 0;
      for (const Rank& rank : state) best_ = std::max(best_, rank.load);
      return;
    }
    for (const State& option : options_[sequence]) {
      State next = state;
      if (add(next, option)) search(sequence + 1, next);
    }
  }

  const ElasticProblem& problem_;
  std::vector<std::vector<State>> options_;  // of every sequence with tokens
  double work_ = 0;
  double speeds_ = 0;
  double best_ = 0;
};

}  // namespace knapformer::test
