// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/gemm.hpp>
#include <knapformer/kernels/linear.hpp>
#include <knapformer/plan/error.hpp>
#include <support/device_arrays.hpp>

namespace knapformer::test {
namespace {

using kernels::Transpose;

template <class T>
class Gemm : public ::testing::Test {
 protected:
  static constexpr double kTolerance = sizeof(T) == 2 ? 0x1p-8 : sizeof(T) == 4 ? 1e-6 : 1e-15;
  Device exec;
  std::mt19937_64 random{7};
};
using Scalars = ::testing::Types<float, double, bfloat16>;
TYPED_TEST_SUITE(Gemm, Scalars);

TYPED_TEST(Gemm, EqualsTheDefinition) {
  using T = TypeParam;
  const std::int64_t extents[][3] = {{1, 1, 1}, {5, 3, 7}, {64, 33, 20},
                                     {0, 3, 4}, {3, 0, 4}, {3, 4, 0}};
  for (const auto& [m, n, k] : extents) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        for (const double beta : {0.0, 1.0, -0.5}) {
          SCOPED_TRACE(::testing::Message()
                       << m << " " << n << " " << k << " " << ta << tb << beta);
          const auto a = random_matrix<T>(ta ? k : m, ta ? m : k, this->random);
          const auto b = random_matrix<T>(tb ? n : k, tb ? k : n, this->random);
          const auto c = random_matrix<T>(m, n, this->random);
          const auto ha = to_host(a), hb = to_host(b), hc = to_host(c);
          std::vector<double> expected;
          for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
              double sum = beta == 0 ? 0 : beta * static_cast<double>(hc[i * n + j]);
              for (std::int64_t l = 0; l < k; ++l) {
                sum += 0.75 * static_cast<double>(ha[ta ? l * m + i : i * k + l]) *
                       static_cast<double>(hb[tb ? j * k + l : l * n + j]);
              }
              expected.push_back(sum);
            }
          }
          if (beta == 0) {  // must not be read
            from_host(std::vector<double>(hc.size(), std::nan("")), c);
          }
          kernels::gemm(this->exec, ta ? Transpose::kYes : Transpose::kNo,
                        tb ? Transpose::kYes : Transpose::kNo, T(0.75), a, b, T(beta), c);
          EXPECT_LE(difference(to_host(c), expected), this->kTolerance);
        }
      }
    }
  }
}

TYPED_TEST(Gemm, TakesRowsWithGaps) {
  using T = TypeParam;
  const auto wide = random_matrix<T>(6, 9, this->random);
  const auto b = random_matrix<T>(4, 5, this->random);
  const Matrix<T> packed("KnapFormer::test", 6, 4);
  const Kokkos::pair<int, int> columns(2, 6);
  const Matrix<T> part = Kokkos::subview(wide, Kokkos::ALL, columns);
  Kokkos::deep_copy(packed, part);
  const Matrix<T> expected("KnapFormer::test", 6, 5), got("KnapFormer::test", 6, 5);
  kernels::gemm(this->exec, Transpose::kNo, Transpose::kNo, T(1), packed, b, T(0), expected);
  kernels::gemm(this->exec, Transpose::kNo, Transpose::kNo, T(1), part, b, T(0), got);
  EXPECT_EQ(to_host(got), to_host(expected));
}

TYPED_TEST(Gemm, RefusesShapesThatDoNotMatch) {
  using T = TypeParam;
  const Matrix<T> a("KnapFormer::test", 2, 3), b("KnapFormer::test", 4, 5),
      c("KnapFormer::test", 2, 5);
  EXPECT_THROW(kernels::gemm(this->exec, Transpose::kNo, Transpose::kNo, T(1), a, b, T(0), c),
               Error);
}

TEST(Linear, EqualsTheDefinitionAndItsGradients) {
  const Device exec;
  std::mt19937_64 random(3);
  for (const std::int64_t rows : {0, 1, 2, 17, 1000}) {
    SCOPED_TRACE(rows);
    constexpr std::int64_t kIn = 5, kOut = 130;
    const auto x = random_matrix<double>(rows, kIn, random);
    const auto weight = random_matrix<double>(kOut, kIn, random);
    const auto bias = random_vector<double>(kOut, random);
    const auto residual = random_matrix<double>(rows, kOut, random);
    const Matrix<double> y("KnapFormer::test", rows, kOut);
    kernels::linear(exec, x, weight, bias, y);
    const auto hx = to_host(x), hw = to_host(weight), hb = to_host(bias), hr = to_host(residual);
    std::vector<double> plain, added;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < kOut; ++j) {
        double sum = hb[j];
        for (std::int64_t l = 0; l < kIn; ++l) sum += hx[i * kIn + l] * hw[j * kIn + l];
        plain.push_back(sum);
        added.push_back(sum + hr[i * kOut + j]);
      }
    }
    EXPECT_LE(difference(to_host(y), plain), 1e-14);
    kernels::linear_residual(exec, x, weight, bias, residual, y);
    EXPECT_LE(difference(to_host(y), added), 1e-14);

    const auto dy = random_matrix<double>(rows, kOut, random);
    const auto weights = to_host(dy);
    const Matrix<double> dx("KnapFormer::test", rows, kIn), dweight("KnapFormer::test", kOut, kIn);
    const Vector<double> dbias("KnapFormer::test", kOut);
    kernels::linear_backward(exec, x, weight, dy, dx, dweight, dbias);
    const auto loss = [&] {
      kernels::linear(exec, x, weight, bias, y);
      return dot(y, weights);
    };
    expect_gradient("x", x, dx, loss);
    expect_gradient("weight", weight, dweight, loss);
    expect_gradient("bias", bias, dbias, loss);

    const auto times = [](double factor, std::vector<double> values) {
      for (double& value : values) value *= factor;
      return values;
    };
    const auto dx_again = times(1.5, to_host(dx)), dweight_twice = times(2, to_host(dweight)),
               dbias_twice = times(2, to_host(dbias));
    kernels::linear_backward(exec, x, weight, dy, dx, dweight, dbias, 0.5);
    EXPECT_LE(difference(to_host(dx), dx_again), 1e-14) << "half of what there was stays";
    EXPECT_LE(difference(to_host(dweight), dweight_twice), 1e-14) << "adds up";
    EXPECT_LE(difference(to_host(dbias), dbias_twice), 1e-14) << "adds up";
  }
}

}  // namespace
}  // namespace knapformer::test
