// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/row_math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <knapformer/plan/error.hpp>
#include <limits>
#include <vector>

#include "instruction_sets.hpp"

namespace knapformer::test {
namespace {

/// e^x of every element, by way of the gradient of the softmax.
template <class T>
std::vector<T> exponentials(std::vector<T> x) {
  std::vector<T> products(x.size(), T(0));
  const kernels::ScoreTile tile{.rows = 1, .columns = static_cast<int>(x.size())};
  const T zero = 0;
  kernels::host::softmax_gradient_tile(tile, x.data(), products.data(), &zero, &zero, 1);
  return x;
}

/// The largest error over [first, last], in units in the last place.
template <class T>
double largest_error(T first, T last, int count) {
  std::vector<T> x;
  for (int i = 0; i < count; ++i) x.push_back(first + (last - first) * T(i) / T(count - 1));
  const std::vector<T> got = exponentials(x);
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double expected = std::exp(static_cast<long double>(x[i]));
    const T rounded = static_cast<T>(expected);
    const T unit = std::nextafter(rounded, std::numeric_limits<T>::infinity()) - rounded;
    largest = std::max(
        largest, static_cast<double>(std::abs(static_cast<long double>(got[i]) - expected) / unit));
  }
  return largest;
}

// Without fused multiply-adds a little over one unit is lost.
TEST(Exponential, IsRightToTheLastPlace) {
  for_each_instruction_set([] {
    EXPECT_LE(largest_error<float>(-87, 88, 2000001), 1.5);
    EXPECT_LE(largest_error<double>(-708, 709, 1000001), 1.5);
    EXPECT_LE(largest_error<float>(-1, 1, 1000001), 1.5);
    EXPECT_LE(largest_error<double>(-1, 1, 1000001), 1.5);
  });
}

TEST(Exponential, HoldsAtTheEnds) {
  for_each_instruction_set([] {
    const float infinity = std::numeric_limits<float>::infinity();
    const auto got = exponentials<float>({-infinity, -1e30F, -88, -0.0F, 0, std::nanf("")});
    EXPECT_EQ(got[0], 0);
    EXPECT_EQ(got[1], 0);
    EXPECT_EQ(got[2], 0);
    EXPECT_EQ(got[3], 1);
    EXPECT_EQ(got[4], 1);
    EXPECT_TRUE(std::isnan(got[5]));
  });
}

TEST(InstructionSets, RefuseWhatTheCpuLacks) {
  using kernels::host::InstructionSet;
  const auto beyond =
      static_cast<InstructionSet>(static_cast<int>(kernels::host::widest_instruction_set()) + 1);
  EXPECT_THROW(kernels::host::use_instruction_set(beyond), Error);
}

}  // namespace
}  // namespace knapformer::test
