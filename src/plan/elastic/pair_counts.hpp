// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace knapformer {

/// How often each pair of ranks talks: an open-addressed table, since most pairs never do.
class PairCounts {
 public:
  PairCounts() : entries_(kSmallest) {}

  /// Adds `change` to the count of key, which is not negative, and returns it.
  std::int64_t add(std::int64_t key, std::int64_t change) {
    if (2 * used_ >= entries_.size()) grow();
    Entry& entry = find(key);
    if (entry.key < 0) {
      entry.key = key;
      ++used_;
    }
    return entry.count += change;
  }

 private:
  static constexpr std::size_t kSmallest = 256;  // a power of two, as all sizes
  struct Entry {
    std::int64_t key = -1;
    std::int64_t count = 0;
  };

  Entry& find(std::int64_t key) {
    std::size_t at =
        static_cast<std::size_t>((static_cast<std::uint64_t>(key) * 0x9e3779b97f4a7c15u) >> 20);
    for (;; ++at) {
      Entry& entry = entries_[at & (entries_.size() - 1)];
      if (entry.key == key || entry.key < 0) return entry;
    }
  }

  void grow() {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    used_ = 0;
    for (const Entry& entry : old) {
      if (entry.count == 0) continue;
      find(entry.key) = entry;
      ++used_;
    }
  }

  std::vector<Entry> entries_;
  std::size_t used_ = 0;
};

}  // namespace knapformer
