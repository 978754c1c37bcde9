// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/model/parameter_info.hpp>
#include <utility>

namespace knapformer {

std::vector<ParameterInfo> placed(std::vector<ParameterInfo> parameters) {
  std::int64_t offset = 0;
  for (ParameterInfo& parameter : parameters) {
    parameter.offset = offset;
    offset += parameter.size();
  }
  return parameters;
}

std::int64_t total_size(const std::vector<ParameterInfo>& layout) {
  return layout.empty() ? 0 : layout.back().offset + layout.back().size();
}

}  // namespace knapformer
