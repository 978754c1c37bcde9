// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/elastic/pods.hpp"

namespace knapformer {

/// How often each pair of ranks talks: a table for those of one pod, which most are, and an
/// open-addressed one for the others, since most of them never do.
class PairCounts {
 public:
  explicit PairCounts(const Pods& pods)
      : pods_(pods), near_(pods.ranks() * pods.size()), entries_(kSmallest) {}

  std::int64_t of(std::int64_t a, std::int64_t b) const {
    if (const Place place(pods_, a, b); place.near) return near_[place.at];
    return entries_[find(key(a, b))].count;
  }

  /// Adds `change` to the count of two ranks and returns it.
  std::int64_t add(std::int64_t a, std::int64_t b, std::int64_t change) {
    if (const Place place(pods_, a, b); place.near) {
      return near_[place.at] += static_cast<std::int32_t>(change);
    }
    if (2 * used_ >= entries_.size()) grow();
    Entry& entry = entries_[find(key(a, b))];
    if (entry.key < 0) {
      entry.key = key(a, b);
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

  // In the table, for ranks of one pod.
  struct Place {
    Place(const Pods& pods, std::int64_t a, std::int64_t b) {
      const std::int64_t last = std::max(a, b);
      const std::int64_t within = std::min(a, b) - pods.first(pods.of(last));
      near = within >= 0;
      at = last * pods.size() + within;
    }
    bool near;
    std::int64_t at;
  };

  std::int64_t key(std::int64_t a, std::int64_t b) const {
    return std::min(a, b) * pods_.ranks() + std::max(a, b);
  }

  // Where a key is, or would be.
  std::size_t find(std::int64_t key) const {
    std::size_t at =
        static_cast<std::size_t>((static_cast<std::uint64_t>(key) * 0x9e3779b97f4a7c15u) >> 20);
    for (;; ++at) {
      at &= entries_.size() - 1;
      if (entries_[at].key == key || entries_[at].key < 0) return at;
    }
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

  const Pods& pods_;
  std::vector<std::int32_t> near_;
  std::vector<Entry> entries_;
  std::size_t used_ = 0;
};

}  // namespace knapformer
