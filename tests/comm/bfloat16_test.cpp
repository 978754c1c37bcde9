// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <knapformer/comm/bfloat16.hpp>
#include <limits>

namespace knapformer {
namespace {

std::uint16_t bits(bfloat16 value) { return std::bit_cast<std::uint16_t>(value); }
bfloat16 from_bits(std::uint32_t value) {
  return std::bit_cast<bfloat16>(static_cast<std::uint16_t>(value));
}

TEST(Bfloat16, EveryPatternSurvivesAFloat) {
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const float value = from_bits(pattern);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(value)))) << pattern;
    } else {
      EXPECT_EQ(bits(bfloat16(value)), pattern);
      EXPECT_EQ(bits(bfloat16(static_cast<double>(value))), pattern);
    }
  }
}

/// Between all neighbours: the middle goes to the even one, what is beside it to the nearer one.
TEST(Bfloat16, RoundsToNearestEven) {
  for (std::uint32_t low = 0; low < 0x7f7f; ++low) {
    const double a = from_bits(low), b = from_bits(low + 1), middle = (a + b) / 2;
    const double step = (b - a) * 0x1p-40;  // far less than a float resolves
    for (const double sign : {1.0, -1.0}) {
      const std::uint32_t high_bit = sign < 0 ? 0x8000 : 0;
      const std::uint32_t even = high_bit | (low % 2 == 0 ? low : low + 1);
      EXPECT_EQ(bits(bfloat16(sign * middle)), even);
      EXPECT_EQ(bits(bfloat16(static_cast<float>(sign * middle))), even);
      EXPECT_EQ(bits(bfloat16(sign * (middle - step))), high_bit | low);
      EXPECT_EQ(bits(bfloat16(sign * (middle + step))), high_bit | (low + 1));
    }
  }
}

TEST(Bfloat16, KeepsInfinityAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(bits(infinity), 0x7f80);
  EXPECT_EQ(bits(-infinity), 0xff80);
  EXPECT_EQ(bits(std::numeric_limits<float>::max()), 0x7f80) << "nearest";
  EXPECT_EQ(bits(bfloat16(-1e300)), 0xff80);
  for (const std::uint32_t nan : {0x7f800001U, 0x7fffffffU, 0xff800001U, 0xffffffffU}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(nan)))));
    const double wide = std::bit_cast<float>(nan);
    EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(wide))));
  }
  EXPECT_EQ(bits(-0.0F), 0x8000);
}

TEST(Bfloat16, ReadsAsAFloat) {
  const bfloat16 two(2), three(3.0);
  static_assert(std::is_same_v<decltype(two * three), float>);
  EXPECT_EQ(two * three + 0.5F, 6.5F);
  EXPECT_EQ(bits(bfloat16(257)), bits(bfloat16(256))) << "a tie, to even";
}

}  // namespace
}  // namespace knapformer
