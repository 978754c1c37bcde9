// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace knapformer {

/// The loads of bags, and which is least: a tournament, replayed from a bag upwards whenever its
/// load changes.
class BagLoads {
 public:
  explicit BagLoads(std::int64_t bags)
      : leaves_(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bags)))),
        loads_(leaves_, kNever),
        winner_(2 * leaves_) {
    for (std::int64_t bag = 0; bag < leaves_; ++bag) winner_[leaves_ + bag] = bag;
    for (std::int64_t bag = 0; bag < bags; ++bag) loads_[bag] = 0;
    for (std::int64_t node = leaves_ - 1; node > 0; --node) play(node);
  }

  std::int64_t least() const { return winner_[1]; }
  std::int64_t load(std::int64_t bag) const { return loads_[bag]; }

  void add(std::int64_t bag, std::int64_t load) {
    loads_[bag] += load;
    for (std::int64_t node = (leaves_ + bag) / 2; node > 0; node /= 2) play(node);
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  void play(std::int64_t node) {
    const std::int64_t left = winner_[2 * node];
    const std::int64_t right = winner_[2 * node + 1];
    winner_[node] = loads_[right] < loads_[left] ? right : left;
  }

  std::int64_t leaves_;
  std::vector<std::int64_t> loads_;
  std::vector<std::int64_t> winner_;  // of the subtree of every node; 1 is the root
};

}  // namespace knapformer
