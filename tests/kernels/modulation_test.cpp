// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/gelu.hpp>
#include <knapformer/kernels/modulation.hpp>
#include <knapformer/plan/error.hpp>
#include <support/device_arrays.hpp>

#include "instruction_sets.hpp"

namespace knapformer::test {
namespace {

constexpr double kEps = 1e-3;  // large enough to matter

/// Chunks of several lengths, and random rows and conditioning for them.
class Modulation : public ::testing::Test {
 protected:
  static constexpr std::int64_t kD = 70, kChunks = 6;
  const std::vector<std::int64_t> lengths{0, 1, 2, 17, 0, 1000};
  std::int64_t rows = 0;
  std::vector<std::size_t> chunk_of;
  Kokkos::View<std::int64_t*, Device> offsets{"KnapFormer::test", kChunks + 1};
  Device exec;
  std::mt19937_64 random{17};

  void SetUp() override {
    std::vector<std::int64_t> starts{0};
    for (std::size_t chunk = 0; chunk < lengths.size(); ++chunk) {
      rows += lengths[chunk];
      starts.push_back(rows);
      chunk_of.insert(chunk_of.end(), static_cast<std::size_t>(lengths[chunk]), chunk);
    }
    from_host(starts, offsets);
  }

  Matrix<double> row_matrix() { return random_matrix<double>(rows, kD, random); }

  Matrix<double> chunk_matrix() { return random_matrix<double>(kChunks, kD, random); }
};

TEST_F(Modulation, NormEqualsTheDefinitionAndItsGradients) {
  const auto x = row_matrix();
  const auto shift = chunk_matrix(), scale = chunk_matrix();
  const Matrix<double> y("KnapFormer::test", rows, kD), moments("KnapFormer::test", rows, 2);
  const auto norm = [&] {
    kernels::modulated_norm(exec, offsets, x, shift, scale, kEps, y, moments);
  };
  norm();
  const auto hx = to_host(x), add = to_host(shift), multiply = to_host(scale);
  std::vector<double> expected;
  for (std::size_t row = 0; row < chunk_of.size(); ++row) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < kD; ++c) mean += hx[row * kD + c] / kD;
    for (std::size_t c = 0; c < kD; ++c) variance += std::pow(hx[row * kD + c] - mean, 2) / kD;
    for (std::size_t c = 0; c < kD; ++c) {
      const std::size_t at = chunk_of[row] * kD + c;
      const double normed = (hx[row * kD + c] - mean) / std::sqrt(variance + kEps);
      expected.push_back((1 + multiply[at]) * normed + add[at]);
    }
  }
  EXPECT_LE(difference(to_host(y), expected), 1e-14);

  const auto dy = row_matrix();
  const auto weights = to_host(dy);
  const auto dx = row_matrix();
  const auto before = to_host(dx);
  const auto dshift = chunk_matrix(), dscale = chunk_matrix();  // whose values must not matter
  kernels::modulated_norm_backward(exec, offsets, x, scale, moments, dy, dx, dshift, dscale);
  subtract(dx, before);
  const auto loss = [&] {
    norm();
    return dot(y, weights);
  };
  expect_gradient("x", x, dx, loss, 100);
  expect_gradient("shift", shift, dshift, loss, 105);
  expect_gradient("scale", scale, dscale, loss, 105);
}

TEST_F(Modulation, GateEqualsTheDefinitionAndItsGradients) {
  const auto x = row_matrix(), residual = row_matrix();
  const auto gate = chunk_matrix();
  const Matrix<double> y("KnapFormer::test", rows, kD);
  const auto mix = [&] { kernels::gated_residual(exec, offsets, x, gate, residual, y); };
  mix();
  const auto hx = to_host(x), hr = to_host(residual), multiply = to_host(gate);
  std::vector<double> expected;
  for (std::size_t i = 0; i < hx.size(); ++i) {
    expected.push_back(hr[i] + multiply[chunk_of[i / kD] * kD + i % kD] * hx[i]);
  }
  EXPECT_LE(difference(to_host(y), expected), 1e-15);

  const auto dy = row_matrix(), dx = row_matrix();
  const auto dgate = chunk_matrix();
  const auto weights = to_host(dy);
  kernels::gated_residual_backward(exec, offsets, x, gate, dy, dx, dgate);
  const auto loss = [&] {
    mix();
    return dot(y, weights);
  };
  expect_gradient("x", x, dx, loss, 100);
  expect_gradient("gate", gate, dgate, loss, 105);

  kernels::gated_residual(exec, offsets, x, gate, residual, residual);
  EXPECT_LE(difference(to_host(residual), expected), 1e-15) << "in place";
}

TEST_F(Modulation, TakesPartsOfWiderRows) {
  const auto x = row_matrix(), residual = row_matrix();
  const auto wide = random_matrix<double>(kChunks, 3 * kD, random);
  const Matrix<double> gate =
      Kokkos::subview(wide, Kokkos::ALL, Kokkos::pair<std::int64_t, std::int64_t>(kD, 2 * kD));
  const Matrix<double> packed("KnapFormer::test", kChunks, kD);
  Kokkos::deep_copy(packed, gate);
  const Matrix<double> got("KnapFormer::test", rows, kD), expected("KnapFormer::test", rows, kD);
  kernels::gated_residual(exec, offsets, x, gate, residual, got);
  kernels::gated_residual(exec, offsets, x, packed, residual, expected);
  EXPECT_EQ(to_host(got), to_host(expected));
}

TEST_F(Modulation, RefusesOtherNumbersOfChunks) {
  const auto x = row_matrix();
  const Matrix<double> gate("KnapFormer::test", kChunks + 1, kD);
  EXPECT_THROW(kernels::gated_residual(exec, offsets, x, gate, x, x), Error);
  EXPECT_THROW(kernels::gated_residual(exec, ChunkOffsets(), x, gate, x, x), Error);
}

TEST(BiasGelu, EqualsTheDefinitionAndItsGradients) {
  constexpr std::int64_t kD = 70;
  const Device exec;
  std::mt19937_64 random(17);
  for (const std::int64_t rows : {0, 1, 2, 17, 1000}) {
    SCOPED_TRACE(rows);
    const auto x = random_matrix<double>(rows, kD, random);
    const auto bias = random_vector<double>(kD, random);
    const Matrix<double> y("KnapFormer::test", rows, kD);
    const auto hx = to_host(x), hb = to_host(bias);
    std::vector<double> expected;
    for (std::size_t i = 0; i < hx.size(); ++i) {
      const double z = hx[i] + hb[i % kD];
      const double u = std::sqrt(2 / std::acos(-1.0)) * (z + 0.044715 * z * z * z);
      expected.push_back(0.5 * z * (1 + std::tanh(u)));
    }
    const auto dy = random_matrix<double>(rows, kD, random);
    const auto dx = random_matrix<double>(rows, kD, random);
    const auto weights = to_host(dy);
    for_each_instruction_set([&] {
      kernels::bias_gelu(exec, x, bias, y);
      EXPECT_LE(difference(to_host(y), expected), 1e-15);
      kernels::bias_gelu_backward(exec, x, bias, dy, dx);
      std::vector<double> row_sum(kD);
      const auto hdx = to_host(dx);
      for (std::size_t i = 0; i < hdx.size(); ++i) row_sum[i % kD] += hdx[i];
      const Vector<double> dbias("KnapFormer::test", kD);
      from_host(row_sum, dbias);
      const auto loss = [&] {
        kernels::bias_gelu(exec, x, bias, y);
        return dot(y, weights);
      };
      expect_gradient("x", x, dx, loss);
      expect_gradient("bias", bias, dbias, loss);
    });
  }
}

TEST(BiasGelu, HoldsForLargeNumbers) {
  const Matrix<float> x("KnapFormer::test", 1, 4), y("KnapFormer::test", 1, 4);
  const Vector<float> bias("KnapFormer::test", 4);
  from_host(std::vector<double>{-1e6, -20, 20, 1e6}, x);
  kernels::bias_gelu(Device(), x, bias, y);
  EXPECT_LE(difference(to_host(y), std::vector<double>{0, 0, 20, 1e6}), 1e-7);
  const Matrix<float> dy("KnapFormer::test", 1, 4), dx("KnapFormer::test", 1, 4);
  Kokkos::deep_copy(dy, 1);
  kernels::bias_gelu_backward(Device(), x, bias, dy, dx);
  EXPECT_LE(difference(to_host(dx), std::vector<double>{0, 0, 1, 1}), 1e-7);
}

}  // namespace
}  // namespace knapformer::test
