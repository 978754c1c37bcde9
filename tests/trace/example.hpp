// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <limits>

#include "knapformer/trace/trace.hpp"

namespace knapformer::test {

inline TraceHeader example_header(std::int64_t ranks, std::int64_t group_size) {
  TraceHeader header;
  header.ranks = ranks;
  header.group_size = group_size;
  header.topology = "g1n2+g2n1";
  header.heads = 24;
  header.kv_heads = 8;
  header.d_model = 3072;
  header.layers = 57;
  header.gamma = 0.5;
  header.dtype = "float";
  header.threads = 3;
  header.micro_batches = 2;
  header.loss_mean = "samples";
  header.seed = std::numeric_limits<std::uint64_t>::max() - 1;
  header.data =
      "manifest m.csv, \xc3\xbc"
      "ber 10 samples";
  header.command_line = "knapformer simulate --trace t.h5";
  return header;
}

/// A step whose every number follows from `index`, and differs from its neighbours.
inline TraceStep example_step(std::int64_t index, const TraceHeader& header) {
  const double x = static_cast<double>(index);
  TraceStep step;
  step.index = index;
  step.balanced = index % 3 == 1;
  step.seconds = 0.5 + x;
  step.loss = 1 / (1 + x);
  for (std::int64_t g = 0; g < header.groups(); ++g) {
    const double y = x + static_cast<double>(g) / 64;
    const double max_over_min = g == 0 ? std::numeric_limits<double>::infinity() : 5 + y;
    step.groups.push_back({0xfedcba9876543210U + static_cast<std::uint64_t>(index * 100 + g), 1 + y,
                           2 + y, max_over_min, 4 + y, 0.25 + y, index * 7 + g, index * 11 + g,
                           1e-3 + y});
  }
  for (std::int64_t r = 0; r < header.ranks; ++r) {
    const double y = x + static_cast<double>(r) / 64;
    const std::int64_t sequences = (index + r) % 4;
    step.ranks.push_back({sequences,
                          index * 3 + r,
                          index * 5 + r,
                          1e15 + y,
                          1e16 + y,
                          1 + y,
                          2 + y,
                          3 + y,
                          4 + y,
                          5 + y,
                          6 + y,
                          7 + y,
                          8 + y,
                          9 + y,
                          10 + y,
                          (index << 33) + r,
                          (index << 34) + r,
                          index * 13 + r,
                          index * 17 + r,
                          index * 19 + r,
                          index * 23 + r,
                          index * 29 + r,
                          index * 31 + r,
                          index * 37 + r});
    step.lengths.emplace_back();
    for (std::int64_t i = 0; i < sequences; ++i) {
      step.lengths.back().push_back(index * 1000 + r * 10 + i);
    }
  }
  return step;
}

}  // namespace knapformer::test
