// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/route/routing.hpp>

namespace knapformer {

/// What a rank sends around attention in a forward and a backward pass, with head rows of `row`
/// bytes. In each block q, k and v go to their heads and the output comes back; so do their
/// gradients, the other way; and q, k, v and the output once more in every block that is
/// recomputed.
inline std::int64_t exchanged_bytes(const Routing& routing, std::int64_t row,
                                    std::int64_t queries_per_key, std::int64_t blocks,
                                    std::int64_t recomputed) {
  const std::int64_t out = queries_per_key, qkv = out + 2;  // rows for one head of keys
  const std::int64_t sent = routing.attention_rows_sent(), back = routing.attention_rows_returned();
  return row *
         ((blocks + recomputed) * (qkv * sent + out * back) + blocks * (out * sent + qkv * back));
}

}  // namespace knapformer
