// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>

namespace knapformer {

/// One sequence as this rank's attention sees it, after pre-attention: all tokens, some heads.
/// A head buffer is [head rows x d_head]; token t, local head h of a problem is row
/// `offset + t * heads + h`.
struct AttentionProblem {
  std::int64_t offset = 0;      ///< first head row
  std::int64_t length = 0;      ///< tokens of the whole sequence
  std::int64_t heads = 0;       ///< heads computed here
  std::int64_t first_head = 0;  ///< of those, among all of the model
  std::int64_t sequence = 0;    ///< index in the plan
};

}  // namespace knapformer
