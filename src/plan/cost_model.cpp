// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <cmath>
#include <knapformer/plan/cost_model.hpp>

#include "plan/require_range.hpp"

namespace knapformer {
CostModel CostModel::transformer(std::int64_t d_model, double gamma, std::int64_t constant) {
  require_range("cost model: d_model", d_model, 1, std::int64_t{1} << 20);
  require_range("cost model: gamma", gamma, 0, 1024);
  require_range("cost model: constant", constant, 0, std::int64_t{1} << 40);
  CostModel model;
  model.d_model_ = d_model;
  model.per_sequence_ = Work{constant} * kUnitsPerOne;
  model.per_token_ = Work{6} * d_model * kUnitsPerOne;
  model.per_token_pair_ = std::llround(gamma * static_cast<double>(kUnitsPerOne));
  return model;
}

Work CostModel::sequence(std::int64_t length) const {
  require_range("cost model: sequence length", length, 0, kMaxLength);
  if (length == 0) return 0;
  return per_sequence_ + per_token_ * length + per_token_pair_ * length * length;
}

}  // namespace knapformer
