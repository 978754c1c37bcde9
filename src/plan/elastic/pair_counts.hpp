// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace knapformer {

/// How often each pair of ranks talks: a table for neighbours, which most are, and an
/// open-addressed one for the others, since most of them never do.
class PairCounts {
 public:
  /// Neighbours are less than `reach` apart; where ranks are few, all are.
  PairCounts(std::int64_t ranks, std::int64_t reach)
      : ranks_(ranks),
        reach_(ranks <= kFewRanks ? ranks : reach),
        near_(ranks * reach_),
        entries_(kSmallest) {}

  std::int64_t of(std::int64_t a, std::int64_t b) const {
    if (near(a, b)) return near_[place(a, b)];
    return entries_[find(key(a, b))].count;
  }

  /// Fetches what add() reads for a rank and another that is not its neighbour.
  void prefetch(std::int64_t a, std::int64_t b) const {
    __builtin_prefetch(&entries_[first_place(key(a, b))], 1);
  }

  /// Adds `change` to the count of two ranks and returns it.
  std::int64_t add(std::int64_t a, std::int64_t b, std::int64_t change) {
    if (near(a, b)) return near_[place(a, b)] += static_cast<std::int32_t>(change);
    if (2 * used_ >= entries_.size()) grow();
    Entry& entry = entries_[find(key(a, b))];
    if (entry.key < 0) {
      entry.key = key(a, b);
      ++used_;
    }
    return entry.count += change;
  }

 private:
  static constexpr std::int64_t kFewRanks = 128;  // a table of all pairs stays in cache
  static constexpr std::size_t kSmallest = 256;   // a power of two, as all sizes
  struct Entry {
    std::int64_t key = -1;
    std::int64_t count = 0;
  };

  bool near(std::int64_t a, std::int64_t b) const { return std::abs(a - b) < reach_; }
  std::int64_t place(std::int64_t a, std::int64_t b) const {
    return std::max(a, b) * reach_ + std::abs(a - b);
  }

  // The pairs between eight neighbours and eight others have keys in a row.
  std::int64_t key(std::int64_t a, std::int64_t b) const {
    const std::int64_t low = std::min(a, b), high = std::max(a, b);
    return (low / 8 * ranks_ + high / 8) * 64 + low % 8 * 8 + high % 8;
  }

  // Those of one rank with eight neighbours are looked up together, and so lie side by side.
  std::size_t first_place(std::int64_t key) const {
    const std::uint64_t eight = (static_cast<std::uint64_t>(key / 64) * 0x9e3779b97f4a7c15u) >> 20;
    return (eight * 8 + ((key / 8 ^ key) & 7)) & (entries_.size() - 1);
  }
  // Where a key is, or would be.
  std::size_t find(std::int64_t key) const {
    std::size_t at = first_place(key);
    while (entries_[at].key != key && entries_[at].key >= 0) at = (at + 1) & (entries_.size() - 1);
    return at;
  }

  void grow() {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    used_ = 0;
    for (const Entry& entry : old) {
      if (entry.count == 0) continue;
      entries_[find(entry.key)] = entry;
      ++used_;
    }
  }

  std::int64_t ranks_, reach_;
  std::vector<std::int32_t> near_;
  std::vector<Entry> entries_;
  std::size_t used_ = 0;
};

}  // namespace knapformer
