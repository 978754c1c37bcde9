// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/rms_norm.hpp>
#include <knapformer/kernels/rope.hpp>
#include <knapformer/kernels/split_qkv.hpp>
#include <knapformer/kernels/squared_error.hpp>
#include <knapformer/kernels/swiglu.hpp>
#include <knapformer/plan/error.hpp>
#include <limits>
#include <support/device_arrays.hpp>

#include "instruction_sets.hpp"

namespace knapformer::test {
namespace {

constexpr double kEps = 1e-3;  // large enough to matter

class Rows : public ::testing::TestWithParam<std::int64_t> {
 protected:
  const std::int64_t rows = GetParam();
  Device exec;
  std::mt19937_64 random{11};
};
INSTANTIATE_TEST_SUITE_P(Counts, Rows, ::testing::Values(0, 1, 2, 17, 1000));

TEST_P(Rows, RmsNorm) {
  constexpr std::int64_t kD = 70;
  const auto x = random_matrix<double>(rows, kD, random);
  const auto weight = random_vector<double>(kD, random);
  const Matrix<double> y("KnapFormer::test", rows, kD);
  const Vector<double> inverse_rms("KnapFormer::test", rows);
  kernels::rms_norm(exec, x, weight, kEps, y, inverse_rms);
  const auto hx = to_host(x), hw = to_host(weight);
  std::vector<double> expected;
  for (std::int64_t i = 0; i < rows; ++i) {
    double squares = 0;
    for (std::int64_t c = 0; c < kD; ++c) squares += hx[i * kD + c] * hx[i * kD + c];
    for (std::int64_t c = 0; c < kD; ++c) {
      expected.push_back(hw[c] * hx[i * kD + c] / std::sqrt(squares / kD + kEps));
    }
  }
  EXPECT_LE(difference(to_host(y), expected), 1e-14);

  const auto dy = random_matrix<double>(rows, kD, random);
  const auto weights = to_host(dy);
  const auto dx = random_matrix<double>(rows, kD, random);
  const auto dweight = random_vector<double>(kD, random);
  const auto dx_before = to_host(dx), dweight_before = to_host(dweight);
  kernels::rms_norm_backward(exec, x, weight, inverse_rms, dy, dx, dweight);
  subtract(dx, dx_before);
  subtract(dweight, dweight_before);
  const auto loss = [&] {
    kernels::rms_norm(exec, x, weight, kEps, y, inverse_rms);
    return dot(y, weights);
  };
  expect_gradient("x", x, dx, loss);
  expect_gradient("weight", weight, dweight, loss);
}

/// split_qkv by its definition, and its gradients by finite differences.
void check_split_qkv(std::int64_t rows, std::int64_t kv_heads, std::mt19937_64& random) {
  constexpr std::int64_t kHeads = 3, kDHead = 10, kHalf = kDHead / 2;
  const Device exec;
  const std::int64_t width = (kHeads + 2 * kv_heads) * kDHead;
  const auto qkv = random_matrix<double>(rows, width, random);
  const auto q_weight = random_vector<double>(kDHead, random);
  const auto k_weight = random_vector<double>(kDHead, random);
  const Matrix<double> rope("KnapFormer::test", rows, kDHead);
  const Positions positions("KnapFormer::test", rows);
  std::vector<std::int32_t> coordinates;
  for (std::int64_t i = 0; i < 3 * rows; ++i)
    coordinates.push_back(static_cast<std::int32_t>(i * 5 % 285));  // small: angles are rounded
  from_host(coordinates, positions);
  kernels::rope_table(exec, positions, 100.0, {kDHead, 0, 0}, rope);
  const HeadRows<double> q("KnapFormer::test", rows, kHeads, kDHead),
      k("KnapFormer::test", rows, kv_heads, kDHead), v("KnapFormer::test", rows, kv_heads, kDHead);
  const Matrix<double> inverse_rms("KnapFormer::test", rows, kHeads + kv_heads);
  const auto split = [&] {
    kernels::split_qkv(exec, qkv, q_weight, k_weight, rope, kEps, q, k, v, inverse_rms);
  };
  split();

  const auto in = to_host(qkv);
  const std::vector<double> norm_weights[] = {to_host(q_weight), to_host(k_weight)};
  std::vector<double> expected[3];
  const std::int64_t counts[] = {kHeads, kv_heads, kv_heads};
  const std::int64_t first[] = {0, kHeads, kHeads + kv_heads};
  for (int which = 0; which < 3; ++which) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t h = 0; h < counts[which]; ++h) {
        const double* head = &in[static_cast<std::size_t>(i * width + (first[which] + h) * kDHead)];
        if (which == 2) {
          expected[2].insert(expected[2].end(), head, head + kDHead);
          continue;
        }
        double squares = 0;
        for (std::int64_t c = 0; c < kDHead; ++c) squares += head[c] * head[c];
        std::vector<double> rotated(kDHead);
        for (std::int64_t c = 0; c < kHalf; ++c) {
          const double factor = 1 / std::sqrt(squares / kDHead + kEps);
          const double angle =
              static_cast<double>(15 * i % 285) *
              std::pow(100.0, -static_cast<double>(c) / static_cast<double>(kHalf));
          const double a = head[c] * factor * norm_weights[which][c];
          const double b = head[c + kHalf] * factor * norm_weights[which][c + kHalf];
          rotated[c] = a * std::cos(angle) - b * std::sin(angle);
          rotated[c + kHalf] = b * std::cos(angle) + a * std::sin(angle);
        }
        expected[which].insert(expected[which].end(), rotated.begin(), rotated.end());
      }
    }
  }
  EXPECT_LE(difference(to_host(q), expected[0]), 1e-13);
  EXPECT_LE(difference(to_host(k), expected[1]), 1e-13);
  EXPECT_EQ(to_host(v), expected[2]);

  const auto dq = random_heads<double>(rows, kHeads, kDHead, random);
  const auto dk = random_heads<double>(rows, kv_heads, kDHead, random);
  const auto dv = random_heads<double>(rows, kv_heads, kDHead, random);
  const auto wq = to_host(dq), wk = to_host(dk), wv = to_host(dv);
  const auto dqkv = random_matrix<double>(rows, width, random);  // whose values must not matter
  const auto dq_weight = random_vector<double>(kDHead, random);
  const auto dk_weight = random_vector<double>(kDHead, random);
  const auto dq_weight_before = to_host(dq_weight), dk_weight_before = to_host(dk_weight);
  kernels::split_qkv_backward(exec, qkv, q_weight, k_weight, rope, inverse_rms, dq, dk, dv, dqkv,
                              dq_weight, dk_weight);
  subtract(dq_weight, dq_weight_before);
  subtract(dk_weight, dk_weight_before);
  const auto loss = [&] {
    split();
    return dot(q, wq) + dot(k, wk) + dot(v, wv);
  };
  expect_gradient("qkv", qkv, dqkv, loss, 200);
  expect_gradient("q_weight", q_weight, dq_weight, loss);
  expect_gradient("k_weight", k_weight, dk_weight, loss);
}

TEST_P(Rows, SplitQkv) { check_split_qkv(rows, 3, random); }
TEST_P(Rows, SplitQkvWithSharedKeys) { check_split_qkv(rows, 1, random); }

/// Pairs of neighbours, and rows that belong elsewhere, are the plain case with its elements and
/// rows in another order.
TEST_P(Rows, SplitQkvInAnotherOrder) {
  constexpr std::int64_t kHeads = 3, kDHead = 10, kHalf = kDHead / 2, kD = kHeads * kDHead;
  const std::int64_t tokens = rows + 2;
  const auto token_of = [&](std::int64_t row) { return tokens - 1 - row; };
  // Where element c of a head is when its pairs are halves.
  const auto plain = [](std::size_t c) { return c / 2 + c % 2 * kHalf; };
  const auto reordered = [&](const std::vector<double>& in) {
    std::vector<double> out(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      out[i] = in[i - i % kDHead + plain(i % kDHead)];
    }
    return out;
  };
  const auto qkv = random_matrix<double>(rows, 3 * kD, random);
  const auto q_weight = random_vector<double>(kDHead, random);
  const auto k_weight = random_vector<double>(kDHead, random);
  const auto all_rope = random_matrix<double>(tokens, kDHead, random);
  const Matrix<double> rope("KnapFormer::test", rows, kDHead);
  std::vector<std::int64_t> placed;
  for (std::int64_t row = 0; row < rows; ++row) {
    placed.push_back(token_of(row));
    Kokkos::deep_copy(Kokkos::subview(rope, row, Kokkos::ALL),
                      Kokkos::subview(all_rope, token_of(row), Kokkos::ALL));
  }
  const Kokkos::View<std::int64_t*, Device> index("KnapFormer::test", rows);
  from_host(placed, index);
  const kernels::HeadOrder order{kernels::RopePairs::kNeighbours, index};

  const auto heads = [&](std::int64_t n) {
    return HeadRows<double>("KnapFormer::test", n, kHeads, kDHead);
  };
  const auto same = [&](const char* name, const HeadRows<double>& got,
                        const HeadRows<double>& expected) {
    const auto all = to_host(got), few = reordered(to_host(expected));
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto at = all.begin() + token_of(row) * kD;
      EXPECT_LE(
          difference(std::vector<double>(at, at + kD),
                     std::vector<double>(few.begin() + row * kD, few.begin() + (row + 1) * kD)),
          1e-14)
          << name << ", row " << row;
    }
  };
  const auto q = heads(rows), k = heads(rows), v = heads(rows);
  const auto placed_q = heads(tokens), placed_k = heads(tokens), placed_v = heads(tokens);
  const Matrix<double> inverse_rms("KnapFormer::test", rows, 2 * kHeads);
  const Matrix<double> other("KnapFormer::test", rows, 3 * kD);
  const Vector<double> other_q("KnapFormer::test", kDHead), other_k("KnapFormer::test", kDHead);
  from_host(reordered(to_host(qkv)), other);
  from_host(reordered(to_host(q_weight)), other_q);
  from_host(reordered(to_host(k_weight)), other_k);
  kernels::split_qkv(exec, qkv, q_weight, k_weight, rope, kEps, q, k, v, inverse_rms);
  kernels::split_qkv(exec, other, other_q, other_k, all_rope, kEps, placed_q, placed_k, placed_v,
                     inverse_rms, order);
  same("q", placed_q, q);
  same("k", placed_k, k);
  same("v", placed_v, v);

  // The results serve as cotangents.
  const Matrix<double> dqkv("KnapFormer::test", rows, 3 * kD),
      other_dqkv("KnapFormer::test", rows, 3 * kD);
  const Vector<double> dq("KnapFormer::test", kDHead), dk("KnapFormer::test", kDHead),
      other_dq("KnapFormer::test", kDHead), other_dk("KnapFormer::test", kDHead);
  kernels::split_qkv_backward(exec, qkv, q_weight, k_weight, rope, inverse_rms, q, k, v, dqkv, dq,
                              dk);
  kernels::split_qkv_backward(exec, other, other_q, other_k, all_rope, inverse_rms, placed_q,
                              placed_k, placed_v, other_dqkv, other_dq, other_dk, order);
  EXPECT_LE(difference(to_host(other_dqkv), reordered(to_host(dqkv))), 1e-14);
  EXPECT_LE(difference(to_host(other_dq), reordered(to_host(dq))), 1e-14);
  EXPECT_LE(difference(to_host(other_dk), reordered(to_host(dk))), 1e-14);
}

TEST(SplitQkv, RefusesAnOddHead) {
  const Matrix<double> qkv("KnapFormer::test", 2, 9), rope("KnapFormer::test", 2, 3),
      inverse_rms("KnapFormer::test", 2, 2);
  const Vector<double> weight("KnapFormer::test", 3);
  const HeadRows<double> q("KnapFormer::test", 2, 1, 3);
  EXPECT_THROW(kernels::split_qkv(Device(), qkv, weight, weight, rope, kEps, q, q, q, inverse_rms),
               Error);
}

TEST(SplitQkv, RefusesMoreKeysThanQueries) {
  const Matrix<double> qkv("KnapFormer::test", 2, 10), rope("KnapFormer::test", 2, 2),
      inverse_rms("KnapFormer::test", 2, 3);
  const Vector<double> weight("KnapFormer::test", 2);
  const HeadRows<double> q("KnapFormer::test", 2, 1, 2), k("KnapFormer::test", 2, 2, 2);
  EXPECT_THROW(kernels::split_qkv(Device(), qkv, weight, weight, rope, kEps, q, k, k, inverse_rms),
               Error);
}

template <class T>
double swiglu_error(const Device& exec, const std::vector<double>& gates) {
  const auto n = static_cast<std::int64_t>(gates.size());
  const Matrix<T> gate_up("KnapFormer::test", 1, 2 * n), out("KnapFormer::test", 1, n);
  std::vector<double> in = gates;
  in.insert(in.end(), gates.size(), 1.0);
  from_host(in, gate_up);
  kernels::swiglu(exec, gate_up, out);
  std::vector<double> expected;
  for (const double gate : gates) expected.push_back(gate / (1 + std::exp(-gate)));
  return difference(to_host(out), expected);
}

TEST(Swiglu, HoldsForLargeAndSmallGates) {
  std::vector<double> gates = {0, -0.0, 1e-30, -1e-30, -700, -1000, 700, 88.5, -88.5, -1e6, 1e6};
  EXPECT_LE(swiglu_error<double>(Device(), gates), 1e-15);
  EXPECT_LE(swiglu_error<float>(Device(), gates), 1e-7);
  gates.clear();
  for (double gate = -40; gate < 4; gate += 0.0625) gates.push_back(gate);
  EXPECT_LE(swiglu_error<double>(Device(), gates), 1e-15);
  EXPECT_LE(swiglu_error<float>(Device(), gates), 3e-7);
}

TEST(Swiglu, PassesOnWhatIsNotANumber) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(std::isfinite(swiglu_error<double>(Device(), {bad})));
    EXPECT_FALSE(std::isfinite(swiglu_error<float>(Device(), {bad})));
  }
}

TEST_P(Rows, SwigluGradient) {
  constexpr std::int64_t kHidden = 37;
  const auto gate_up = random_matrix<double>(rows, 2 * kHidden, random);
  const Matrix<double> out("KnapFormer::test", rows, kHidden);
  const auto dout = random_matrix<double>(rows, kHidden, random);
  const auto weights = to_host(dout);
  const auto dgate_up = random_matrix<double>(rows, 2 * kHidden, random);
  for_each_instruction_set([&] {
    kernels::swiglu_backward(exec, gate_up, dout, dgate_up);
    expect_gradient("gate_up", gate_up, dgate_up, [&] {
      kernels::swiglu(exec, gate_up, out);
      return dot(out, weights);
    });
  });
}

TEST_P(Rows, SquaredError) {
  constexpr std::int64_t kD = 21;
  const auto y = random_matrix<double>(rows, kD, random);
  const auto target = random_matrix<double>(rows, kD, random);
  const Matrix<double> dy("KnapFormer::test", rows, kD), scrap("KnapFormer::test", rows, kD);
  const auto scales = random_vector<double>(rows, random);
  const double loss = kernels::squared_error(exec, y, target, scales, dy);
  const auto a = to_host(y), b = to_host(target), scale = to_host(scales);
  double expected = 0, magnitude = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double term = scale[i / kD] / 2 * (a[i] - b[i]) * (a[i] - b[i]);
    expected += term;
    magnitude += std::abs(term);
  }
  EXPECT_NEAR(loss, expected, 1e-14 * magnitude);
  expect_gradient("y", y, dy,
                  [&] { return kernels::squared_error(exec, y, target, scales, scrap); });
}

}  // namespace
}  // namespace knapformer::test
