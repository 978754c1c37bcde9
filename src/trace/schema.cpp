// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "trace/schema.hpp"

#include <fmt/format.h>

#include "knapformer/plan/error.hpp"
#include "plan/message.hpp"

namespace knapformer::trace {

void check_header(const TraceHeader& header, const std::filesystem::path& file) {
  constexpr std::int64_t kMaxRanks = std::int64_t{1} << 31;
  if (header.ranks >= 1 && header.ranks <= kMaxRanks && header.group_size >= 1 &&
      header.ranks % header.group_size == 0) {
    return;
  }
  throw Error(fmt::format("trace {}: {} cannot be balanced in groups of {}", file.string(),
                          plural(header.ranks, "rank"), header.group_size));
}

}  // namespace knapformer::trace
