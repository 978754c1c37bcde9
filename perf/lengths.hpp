// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace knapformer::perf {

/// Sequence lengths of a group, ordered by rank: lengths[offsets[r]] ... are those of rank r.
struct Lengths {
  std::vector<std::int64_t> values;
  std::vector<std::int64_t> offsets;
};

/// The samples of a published workload (`lowres`, `mixres` or `joint`) or of `lognormal`, always
/// the same ones for the same arguments. Every rank has `per_rank` samples of its kind; 0: as many
/// as published. The kinds of a published workload repeat every 32 ranks.
///
/// Log-normal lengths have median 2048 and a standard deviation of 1 of their logarithms; they are
/// at most 131072.
Lengths make_lengths(std::string_view workload, std::int64_t ranks, std::int64_t per_rank);

}  // namespace knapformer::perf
