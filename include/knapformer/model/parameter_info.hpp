// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace knapformer {

/// One parameter: where it is in a flat array. Weights are [out, in], row-major; a vector has one
/// column. Names are those of the reference implementation, e.g. "attn/qkv_proj/weight".
struct ParameterInfo {
  std::string name;          ///< see above
  std::int64_t rows = 0;     ///< the first extent
  std::int64_t columns = 1;  ///< the second extent
  std::int64_t offset = 0;   ///< of its first element in the flat array

  std::int64_t size() const { return rows * columns; }  ///< elements
};

/// Places parameters one after another, without gaps.
std::vector<ParameterInfo> placed(std::vector<ParameterInfo> parameters);

/// Elements of all parameters of a layout.
std::int64_t total_size(const std::vector<ParameterInfo>& layout);

}  // namespace knapformer
