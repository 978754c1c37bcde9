// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <cmath>
#include <knapformer/plan/cost_model.hpp>
#include <knapformer/plan/error.hpp>
#include <sstream>
#include <string>

namespace knapformer {
namespace {

template <class T>
void require_range(const char* name, T value, T lowest, T highest) {
  if (value >= lowest && value <= highest) return;  // false for a NaN
  std::ostringstream message;
  message << "cost model: " << name << " is " << value << "; expected " << lowest << " to "
          << highest;
  throw Error(message.str());
}

}  // namespace

CostModel CostModel::transformer(std::int64_t d_model, double gamma, std::int64_t constant) {
  require_range<std::int64_t>("d_model", d_model, 1, std::int64_t{1} << 20);
  require_range<double>("gamma", gamma, 0, 1024);
  require_range<std::int64_t>("constant", constant, 0, std::int64_t{1} << 40);
  CostModel model;
  model.d_model_ = d_model;
  model.per_sequence_ = Work{constant} * kUnitsPerOne;
  model.per_token_ = Work{6} * d_model * kUnitsPerOne;
  model.per_token_pair_ = std::llround(gamma * static_cast<double>(kUnitsPerOne));
  return model;
}

Work CostModel::sequence(std::int64_t length) const {
  require_range<std::int64_t>("sequence length", length, 0, kMaxLength);
  if (length == 0) return 0;
  return per_sequence_ + per_token_ * length + per_token_pair_ * length * length;
}

}  // namespace knapformer
