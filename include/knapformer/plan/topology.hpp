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
  std::int64_t first_rank = 0;
  std::int64_t degree = 1;
};

/// Which compute bags exist in a balancing group. Immutable.
///
/// Written as terms `g<degree>n<count>` joined by `+`: `g1n4+g4n1` is four bags of one rank, then
/// one bag of four. Bags take the ranks in the order written (arXiv 2508.06001, section 3).
class Topology {
 public:
  /// Parses `text`; blanks between tokens are ignored. Throws Error, naming the offending term, for
  /// anything else than such terms, for a degree or count of zero, and for a degree given twice.
  static Topology parse(std::string_view text);

  /// `ranks` bags of one rank each: no sequence is ever split.
  static Topology singles(std::int64_t ranks);

  std::int64_t ranks() const { return ranks_; }
  std::span<const Bag> bags() const { return bags_; }

  /// The canonical spelling, without blanks.
  const std::string& name() const { return name_; }

 private:
  Topology() = default;
  std::int64_t ranks_ = 0;
  std::vector<Bag> bags_;
  std::string name_;
};

}  // namespace knapformer
