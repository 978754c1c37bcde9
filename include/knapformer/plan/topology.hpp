// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace knapformer {

/// Consecutive ranks that compute sequences together: [first_rank, first_rank + degree).
struct Bag {
  std::int64_t first_rank = 0;  ///< in the group
  std::int64_t degree = 1;      ///< ranks of the bag
};

/// Which compute bags exist in a balancing group. Immutable.
///
/// Fixed ones are written as terms `g<degree>n<count>` joined by `+`: `g1n4+g4n1` is four bags of
/// one rank, then one bag of four. Bags take the ranks in the order written (arXiv 2508.06001,
/// section 3). Elastic ones, `elastic` or `elastic<max degree>`, form a bag for every sequence, in
/// a group of any size.
class Topology {
 public:
  /// Parses `text`; blanks between tokens are ignored. Throws Error, naming the offending term, for
  /// anything else than such terms or elastic, for a degree or count of zero, and for a degree
  /// given twice.
  static Topology parse(std::string_view text);

  /// A bag for every sequence, of at most `max_degree` ranks, and of as many ranks as the model has
  /// heads. Throws Error unless max_degree is in [1, kAnyDegree].
  static Topology elastic(std::int64_t max_degree = kAnyDegree);
  static constexpr std::int64_t kAnyDegree = std::int64_t{1}
                                             << 24;  ///< no limit but the group and the heads

  /// `ranks` bags of one rank each: no sequence is ever split.
  static Topology singles(std::int64_t ranks);

  bool is_elastic() const {
    return max_degree_ > 0;
  }  ///< whether every sequence gets a bag of its own
  /// Of elastic bags; 0 for a fixed topology.
  std::int64_t max_degree() const { return max_degree_; }

  /// Of a fixed topology; 0 and none for an elastic one.
  std::int64_t ranks() const { return ranks_; }
  std::span<const Bag> bags() const { return bags_; }  ///< of a fixed topology, by rank

  /// The canonical spelling, without blanks.
  const std::string& name() const { return name_; }

 private:
  Topology() = default;
  std::int64_t ranks_ = 0;
  std::int64_t max_degree_ = 0;
  std::vector<Bag> bags_;
  std::string name_;
};

}  // namespace knapformer
