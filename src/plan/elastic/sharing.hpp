// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/elastic/step_times.hpp"

namespace knapformer {

/// Shares out single sequences between given ranks, whose other sequences are placed already.
///
/// Parts of a sequence are counted in units of 2^-30 of it. Heads are few, so they are rounded
/// first and tokens make up for it.
class Sharing {
 public:
  static constexpr int kWholeBits = 30;
  static constexpr std::int64_t kWhole = std::int64_t{1} << kWholeBits;

  Sharing(const PlanProblem& problem, const StepTimes& times) : problem_(problem), times_(times) {}

  /// How many ranks sequence i can use.
  std::int64_t most_ranks(std::int64_t i) const;

  /// Whether a rank may take all of sequence i.
  bool fits(std::int64_t i, std::int64_t rank) const {
    return problem_.lengths[i] <= token_room(rank) && problem_.heads <= head_room(i, rank);
  }
  /// The time of a rank with all of sequence i on it, exchanges not counted.
  Ticks with_whole(std::int64_t i, std::int64_t rank) const {
    return times_.time(rank) + times_.model().at_speed_of(rank, times_.model().whole(i));
  }

  /// Shares so that all `ranks` finish together, as far as whole heads and tokens and the caps let
  /// them. At most most_ranks(i) of them, distinct. Empty when the caps leave no room.
  std::span<const Share> level(std::int64_t i, std::span<const std::int64_t> ranks);

  /// Shares so that the ranks but the last finish at `time`, and the last takes what is left.
  std::span<const Share> fill(std::int64_t i, std::span<const std::int64_t> ranks, Ticks time);

  /// The part of sequence i that a rank can take until `time`, if `ranks` share it.
  std::int64_t part_until(std::int64_t i, std::int64_t rank, std::int64_t ranks, Ticks time) const;

 private:
  struct Part {
    std::int64_t rank = 0;
    Ticks start = 0;  // when the rank is done with its other sequences
    Ticks slope = 1;  // what the whole of the sequence would take it
    std::int64_t part = 0;
    std::int64_t tokens = 0, heads = 0;
    std::int64_t most_tokens = 0, most_heads = 0, least_heads = 1;
  };

  std::int64_t token_room(std::int64_t rank) const {
    return problem_.max_tokens - times_.tokens(rank);
  }
  std::int64_t head_room(std::int64_t i, std::int64_t rank) const;
  void start(std::int64_t i, std::span<const std::int64_t> ranks);
  void find_slopes(std::int64_t i);
  void sort_by_start();
  void find_level();
  std::span<const Share> whole_heads_and_tokens(std::int64_t i);
  void find_least_heads(std::int64_t i);
  bool round_heads();
  bool round_tokens(std::int64_t i);

  const PlanProblem& problem_;
  const StepTimes& times_;
  std::vector<Part> parts_;
  std::vector<Part*> by_start_;
  std::vector<Share> shares_;
};

}  // namespace knapformer
