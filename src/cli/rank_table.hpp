// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace knapformer::cli {

/// Whole numbers for the sequences of every rank, one rank after another: those of rank r are
/// values[offsets[r]] up to values[offsets[r + 1]].
struct RankTable {
  std::vector<std::int64_t> values;
  std::vector<std::int64_t> offsets{0};
  std::string source;  ///< where they were read, for messages

  std::int64_t ranks() const { return std::ssize(offsets) - 1; }
};

/// Reads `{key: [[...], ...]}`, a list for every rank, from a JSON file or the standard input
/// ("-"). Throws Error for anything but whole numbers from 0 to `highest`.
RankTable read_rank_table(const std::string& path, const std::string& key, std::int64_t highest);

}  // namespace knapformer::cli
