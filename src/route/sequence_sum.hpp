// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <knapformer/route/rows.hpp>

namespace knapformer {

/// For each home sequence, the rows that its chunks add to its sum, in bag order: terms
/// [offsets(s), offsets(s + 1)) of `rows`. Rows below `local` are chunks of this rank; the others,
/// less `local`, are rows of a buffer that arrived.
struct SequenceTerms {
  Kokkos::View<const std::int64_t*, Device> offsets;
  Kokkos::View<const std::int64_t*, Device> rows;
  std::int64_t local = 0;
};

/// One row of `sums` for each sequence. All three are of the same of float, double and bfloat16,
/// whose sums are made in float and rounded once.
void sum_terms(const Device& exec, const SequenceTerms& terms, const ConstRows& chunks,
               const ConstRows& arrived, const Rows& sums);

}  // namespace knapformer
