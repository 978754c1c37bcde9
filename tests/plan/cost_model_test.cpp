// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/plan/cost_model.hpp>
#include <limits>

#include "plan/group.hpp"

namespace knapformer {
namespace {

constexpr Work kOne = CostModel::kUnitsPerOne;

TEST(CostModel, IsTheFormulaInExactUnits) {
  const CostModel cost = CostModel::transformer(3072, 0.5, 7);
  EXPECT_TRUE(cost.sequence(1000) == 7 * kOne + 6 * 3072 * 1000 * kOne + 500000 * kOne);
  EXPECT_TRUE(cost.sequence(1) == 7 * kOne + 6 * 3072 * kOne + kOne / 2);
}

TEST(CostModel, ASequenceWithoutTokensCostsNothing) {
  EXPECT_TRUE(CostModel::transformer(64, 1, 1000).sequence(0) == 0);
}

TEST(CostModel, GammaIsRoundedOnceToTheNearestUnit) {
  EXPECT_TRUE(CostModel::transformer(1, 0.3).per_token_pair() == 19661);  // 0.3 * 65536 = 19660.8
  EXPECT_TRUE(CostModel::transformer(1, 0).per_token_pair() == 0);
  EXPECT_TRUE(CostModel::transformer(1, 1024).per_token_pair() == 1024 * kOne);
}

TEST(CostModel, TheLongestSequenceIsExact) {
  const CostModel cost = CostModel::transformer(1 << 20, 1024, std::int64_t{1} << 40);
  const Work length = CostModel::kMaxLength;
  const Work expected =
      (Work{1} << 40) * kOne + Work{6} * (1 << 20) * length * kOne + 1024 * length * length * kOne;
  EXPECT_TRUE(cost.sequence(CostModel::kMaxLength) == expected);
}

TEST(CostModel, RejectsNumbersOutOfRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_ERROR(CostModel::transformer(0), "d_model is 0; expected 1 to 1048576");
  EXPECT_ERROR(CostModel::transformer(-1), "d_model");
  EXPECT_ERROR(CostModel::transformer((1 << 20) + 1), "d_model");
  EXPECT_ERROR(CostModel::transformer(64, -0.5), "gamma is -0.5; expected 0 to 1024");
  EXPECT_ERROR(CostModel::transformer(64, nan), "gamma");
  EXPECT_ERROR(CostModel::transformer(64, infinity), "gamma");
  EXPECT_ERROR(CostModel::transformer(64, 1024.5), "gamma");
  EXPECT_ERROR(CostModel::transformer(64, 1, -1), "constant is -1");
  EXPECT_ERROR(CostModel::transformer(64, 1, (std::int64_t{1} << 40) + 1), "constant");
  const CostModel cost = CostModel::transformer(64);
  EXPECT_ERROR(cost.sequence(-1), "sequence length is -1");
  EXPECT_ERROR(cost.sequence(CostModel::kMaxLength + 1), "sequence length");
}

}  // namespace
}  // namespace knapformer
