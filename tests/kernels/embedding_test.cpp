// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <knapformer/kernels/gather_rows.hpp>
#include <knapformer/kernels/rope.hpp>
#include <knapformer/kernels/silu.hpp>
#include <knapformer/kernels/time_embedding.hpp>
#include <knapformer/plan/error.hpp>
#include <numeric>
#include <support/device_arrays.hpp>

namespace knapformer::test {
namespace {

TEST(Rope, EveryAxisHasItsElements) {
  const Positions positions("KnapFormer::test", 2);
  from_host(std::vector<std::int32_t>{3, 5, -7, 100000, 0, 2}, positions);
  const Matrix<double> table("KnapFormer::test", 2, 12);
  kernels::rope_table(Device(), positions, 10000, {2, 6, 4}, table);
  // The pairs of the axes: 1, 3 and 2.
  const double powers[] = {1, 1, std::pow(10000.0, -1.0 / 3), std::pow(10000.0, -2.0 / 3), 1, 0.01};
  const double coordinates[2][6] = {{3, 5, 5, 5, -7, -7}, {100000, 0, 0, 0, 2, 2}};
  std::vector<double> expected;
  for (const auto& row : coordinates) {
    for (int pair = 0; pair < 6; ++pair) expected.push_back(std::cos(row[pair] * powers[pair]));
    for (int pair = 0; pair < 6; ++pair) expected.push_back(std::sin(row[pair] * powers[pair]));
  }
  EXPECT_LE(difference(to_host(table), expected), 1e-11);
}

TEST(Rope, RefusesAxesThatDoNotFit) {
  const Positions positions("KnapFormer::test", 2);
  const Matrix<float> table("KnapFormer::test", 2, 12);
  EXPECT_THROW(kernels::rope_table(Device(), positions, 100, {2, 6, 2}, table), Error);
  EXPECT_THROW(kernels::rope_table(Device(), positions, 100, {3, 5, 4}, table), Error);
  EXPECT_THROW(kernels::rope_table(Device(), positions, 100, {-2, 10, 4}, table), Error);
}

TEST(GatherRows, ScatterIsItsTranspose) {
  constexpr std::int64_t kD = 37;
  std::mt19937_64 random(3);
  for (const std::int64_t count : {0, 1, 2, 17, 1000}) {
    SCOPED_TRACE(count);
    const std::int64_t any = count + 3;
    std::vector<std::int64_t> rows(static_cast<std::size_t>(any));
    std::iota(rows.begin(), rows.end(), 0);
    std::ranges::shuffle(rows, random);
    rows.resize(static_cast<std::size_t>(count));
    const Kokkos::View<std::int64_t*, Device> index("KnapFormer::test", count);
    from_host(rows, index);
    const auto all = random_matrix<double>(any, kD, random);
    const auto back = random_matrix<double>(any, kD, random);
    const auto d_some = random_matrix<double>(count, kD, random);
    const Matrix<double> some("KnapFormer::test", count, kD), d_all("KnapFormer::test", any, kD);
    auto expected = to_host(back);
    const auto from = to_host(all), weights = to_host(d_some);
    kernels::gather_rows(Device(), index, all, some);
    kernels::scatter_rows(Device(), index, some, back);
    const auto gathered = to_host(some);
    for (std::size_t i = 0; i < gathered.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(rows[i / kD]) * kD + i % kD;
      EXPECT_EQ(gathered[i], from[at]);
      expected[at] = from[at];
    }
    EXPECT_EQ(to_host(back), expected) << "the other rows stay";

    kernels::scatter_rows(Device(), index, d_some, d_all);
    expect_gradient("all", all, d_all, [&] {
      kernels::gather_rows(Device(), index, all, some);
      return dot(some, weights);
    });
    // And the other way round, where the rows that stay have no part.
    const Matrix<double> d_back("KnapFormer::test", any, kD);
    from_host(expected, d_back);
    kernels::gather_rows(Device(), index, d_back, d_some);
    expect_gradient("some", some, d_some, [&] {
      kernels::scatter_rows(Device(), index, some, back);
      return dot(back, expected);
    });
  }
}

TEST(Silu, EqualsTheDefinitionAndItsGradient) {
  std::mt19937_64 random(4);
  for (const std::int64_t rows : {0, 1, 2, 17, 1000}) {
    SCOPED_TRACE(rows);
    const auto x = random_matrix<double>(rows, 37, random);
    const auto dy = random_matrix<double>(rows, 37, random);
    const Matrix<double> y("KnapFormer::test", rows, 37), dx("KnapFormer::test", rows, 37);
    const auto weights = to_host(dy);
    kernels::silu(Device(), x, y);
    std::vector<double> expected;
    for (const double value : to_host(x)) expected.push_back(value / (1 + std::exp(-value)));
    EXPECT_LE(difference(to_host(y), expected), 1e-15);
    kernels::silu_backward(Device(), x, dy, dx);
    expect_gradient("x", x, dx, [&] {
      kernels::silu(Device(), x, y);
      return dot(y, weights);
    });
  }
}

TEST(Silu, WorksInPlaceAndForLargeNumbers) {
  const Matrix<float> x("KnapFormer::test", 1, 4), d("KnapFormer::test", 1, 4);
  const std::vector<double> values{-1e6, -30, 30, 1e6};
  from_host(values, x);
  Kokkos::deep_copy(d, 1);
  kernels::silu_backward(Device(), x, d, d);
  EXPECT_LE(difference(to_host(d), std::vector<double>{0, 0, 1, 1}), 1e-7);
  kernels::silu(Device(), x, x);
  EXPECT_LE(difference(to_host(x), std::vector<double>{0, 0, 30, 1e6}), 1e-7);
}

TEST(TimeEmbedding, EqualsTheDefinition) {
  const Vector<double> times("KnapFormer::test", 3);
  from_host(std::vector<double>{0, 0.25, 1}, times);
  const Matrix<double> out("KnapFormer::test", 3, 6);
  kernels::time_embedding(Device(), times, 1000, 10000, out);
  std::vector<double> expected;
  for (const double time : {0.0, 250.0, 1000.0}) {
    for (int i = 0; i < 3; ++i) expected.push_back(std::cos(time * std::pow(10000.0, -i / 3.0)));
    for (int i = 0; i < 3; ++i) expected.push_back(std::sin(time * std::pow(10000.0, -i / 3.0)));
  }
  EXPECT_LE(difference(to_host(out), expected), 1e-12);
  const Matrix<double> odd("KnapFormer::test", 3, 5);
  EXPECT_THROW(kernels::time_embedding(Device(), times, 1000, 10000, odd), Error);
}

}  // namespace
}  // namespace knapformer::test
