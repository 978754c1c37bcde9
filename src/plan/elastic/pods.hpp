// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <algorithm>
#include <cstdint>

namespace knapformer {

/// Bags are looked for among neighbours: the ranks of a node, or of a part of a very large one.
class Pods {
 public:
  Pods(std::int64_t ranks, std::int64_t ranks_per_node) : ranks_(ranks) {
    constexpr std::int64_t kMost = 64;
    const std::int64_t node = std::min(ranks_per_node, ranks);
    const std::int64_t parts = (node + kMost - 1) / kMost;
    size_ = (node + parts - 1) / parts;
  }
  std::int64_t ranks() const { return ranks_; }
  std::int64_t size() const { return size_; }
  std::int64_t count() const { return (ranks_ + size_ - 1) / size_; }
  std::int64_t of(std::int64_t rank) const { return rank / size_; }
  bool contains(std::int64_t pod, std::int64_t rank) const {
    return first(pod) <= rank && rank < end(pod);
  }
  std::int64_t first(std::int64_t pod) const { return pod * size_; }
  std::int64_t end(std::int64_t pod) const { return std::min(ranks_, (pod + 1) * size_); }

 private:
  std::int64_t ranks_;
  std::int64_t size_;
};

}  // namespace knapformer
