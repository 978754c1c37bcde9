// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Every kernel on bfloat16 beside the same on double, which its own tests know to be right.

#include <knapformer/kernels/attention.hpp>
#include <knapformer/kernels/gather_rows.hpp>
#include <knapformer/kernels/gelu.hpp>
#include <knapformer/kernels/gemm.hpp>
#include <knapformer/kernels/linear.hpp>
#include <knapformer/kernels/modulation.hpp>
#include <knapformer/kernels/rms_norm.hpp>
#include <knapformer/kernels/silu.hpp>
#include <knapformer/kernels/split_qkv.hpp>
#include <knapformer/kernels/squared_error.hpp>
#include <knapformer/kernels/swiglu.hpp>
#include <knapformer/kernels/time_embedding.hpp>
#include <support/device_arrays.hpp>

#include "instruction_sets.hpp"
#include "kernels/blas.hpp"

namespace knapformer::test {
namespace {

constexpr double kEps = 1e-3;
constexpr double kTolerance = 2e-2;

/// Arrays for a kernel: the same bfloat16 numbers whatever the type, and what became of them.
template <class T>
class Arrays {
 public:
  using Element = T;
  using Sum = Accumulate<T>;

  Matrix<T> matrix(std::int64_t rows, std::int64_t columns) {
    return drawn(Matrix<T>("KnapFormer::test", rows, columns));
  }
  Matrix<Sum> sums(std::int64_t rows, std::int64_t columns) {
    return drawn(Matrix<Sum>("KnapFormer::test", rows, columns));
  }
  Vector<T> vector(std::int64_t n) { return drawn(Vector<T>("KnapFormer::test", n)); }
  Vector<Sum> sums(std::int64_t n) { return drawn(Vector<Sum>("KnapFormer::test", n)); }
  HeadRows<T> heads(std::int64_t rows, std::int64_t heads, std::int64_t d_head) {
    return drawn(HeadRows<T>("KnapFormer::test", rows, heads, d_head));
  }
  template <class... View>
  void keep(const View&... views) {
    (results.push_back(doubles(views)), ...);
  }

  Device exec;
  std::vector<std::vector<double>> results;

 private:
  template <class View>
  View drawn(const View& view) {
    std::vector<double> values = random_values(static_cast<std::int64_t>(view.size()), random_);
    for (double& value : values) value = bfloat16(value);
    from_host(values, view);
    return view;
  }

  std::mt19937_64 random_{23};
};

/// run(Arrays) in both types.
template <class Run>
void compare(const Run& run) {
  Arrays<double> expected;
  run(expected);
  for_each_instruction_set([&] {
    Arrays<bfloat16> got;
    run(got);
    ASSERT_EQ(got.results.size(), expected.results.size());
    for (std::size_t i = 0; i < expected.results.size(); ++i) {
      EXPECT_LE(norm_error(got.results[i], expected.results[i]), kTolerance) << "result " << i;
    }
  });
}

Kokkos::View<std::int64_t*, Device> to_device(const std::vector<std::int64_t>& list) {
  const Kokkos::View<std::int64_t*, Device> view("KnapFormer::test", list.size());
  from_host(list, view);
  return view;
}

TEST(Bfloat16, Linear) {
  compare([](auto& a) {
    const auto x = a.matrix(70, 40), weight = a.matrix(50, 40), y = a.matrix(70, 50);
    const auto bias = a.vector(50);
    kernels::linear(a.exec, x, weight, bias, y);
    a.keep(y);
    kernels::linear_residual(a.exec, x, weight, bias, a.matrix(70, 50), y);
    const auto dx = a.matrix(70, 40);
    const auto dweight = a.sums(50, 40);
    const auto dbias = a.sums(50);
    for (const float keep : {1.0F, 0.0F}) {
      kernels::linear_backward(a.exec, x, weight, a.matrix(70, 50), dx, dweight, dbias, keep);
      a.keep(y, dx, dweight, dbias);
    }
  });
}

TEST(Bfloat16, Norms) {
  compare([](auto& a) {
    const auto x = a.matrix(30, 70), y = a.matrix(30, 70), dx = a.matrix(30, 70);
    const auto weight = a.vector(70);
    const auto inverse_rms = a.sums(30), dweight = a.sums(70);
    kernels::rms_norm(a.exec, x, weight, kEps, y, inverse_rms);
    kernels::rms_norm_backward(a.exec, x, weight, inverse_rms, a.matrix(30, 70), dx, dweight);
    a.keep(y, inverse_rms, dx, dweight);

    const auto offsets = to_device({0, 1, 1, 18, 30});
    const auto shift = a.matrix(4, 70), scale = a.matrix(4, 70);
    const auto dshift = a.matrix(4, 70), dscale = a.matrix(4, 70);
    const auto moments = a.sums(30, 2);
    kernels::modulated_norm(a.exec, offsets, x, shift, scale, kEps, y, moments);
    kernels::modulated_norm_backward(a.exec, offsets, x, scale, moments, a.matrix(30, 70), dx,
                                     dshift, dscale);
    a.keep(y, moments, dx, dshift, dscale);

    const auto gate = a.matrix(4, 70);
    kernels::gated_residual(a.exec, offsets, x, gate, a.matrix(30, 70), y);
    kernels::gated_residual_backward(a.exec, offsets, x, gate, a.matrix(30, 70), dx, dscale);
    a.keep(y, dx, dscale);
  });
}

TEST(Bfloat16, Activations) {
  compare([](auto& a) {
    const auto x = a.matrix(9, 74), dx = a.matrix(9, 74), y = a.matrix(9, 74);
    const auto half = a.matrix(9, 37);
    const auto bias = a.vector(74);
    kernels::swiglu(a.exec, x, half);
    kernels::swiglu_backward(a.exec, x, a.matrix(9, 37), dx);
    a.keep(half, dx);
    kernels::bias_gelu(a.exec, x, bias, y);
    kernels::bias_gelu_backward(a.exec, x, bias, a.matrix(9, 74), dx);
    a.keep(y, dx);
    kernels::silu(a.exec, x, y);
    kernels::silu_backward(a.exec, x, a.matrix(9, 74), dx);
    a.keep(y, dx);
  });
}

TEST(Bfloat16, SplitQkv) {
  for (const auto pairs : {kernels::RopePairs::kHalves, kernels::RopePairs::kNeighbours}) {
    compare([&](auto& a) {
      constexpr std::int64_t kRows = 20, kHeads = 3, kDHead = 16;
      const auto qkv = a.matrix(kRows, 3 * kHeads * kDHead), dqkv = a.matrix(kRows, 144);
      const auto q_weight = a.vector(kDHead), k_weight = a.vector(kDHead);
      const auto rope = a.sums(kRows, kDHead), inverse_rms = a.sums(kRows, 2 * kHeads);
      const auto heads = [&] { return a.heads(kRows, kHeads, kDHead); };
      const auto q = heads(), k = heads(), v = heads();
      kernels::split_qkv(a.exec, qkv, q_weight, k_weight, rope, kEps, q, k, v, inverse_rms,
                         {.pairs = pairs});
      a.keep(q, k, v, inverse_rms);
      const auto dq = heads(), dk = heads(), dv = heads();
      const auto dq_weight = a.sums(kDHead), dk_weight = a.sums(kDHead);
      kernels::split_qkv_backward(a.exec, qkv, q_weight, k_weight, rope, inverse_rms, dq, dk, dv,
                                  dqkv, dq_weight, dk_weight, {.pairs = pairs});
      a.keep(dqkv, dq_weight, dk_weight);
    });
  }
}

TEST(Bfloat16, Attention) {
  std::vector<AttentionProblem> problems;
  std::int64_t rows = 0;
  for (const auto& [length, heads] : std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
           {0, 2}, {1, 3}, {2, 1}, {17, 2}, {500, 2}}) {
    problems.push_back({.offset = rows, .length = length, .heads = heads});
    rows += length * heads;
  }
  for (const bool causal : {false, true}) {
    for (const std::int64_t workers : {1, 64}) {
      SCOPED_TRACE(::testing::Message() << "causal " << causal << ", workers " << workers);
      compare([&](auto& a) {
        using T = typename std::decay_t<decltype(a)>::Element;
        constexpr std::int64_t kDHead = 40;
        const auto work = kernels::make_attention_work(a.exec, problems, causal, 1, workers);
        const auto matrix = [&] { return a.matrix(rows, kDHead); };
        const auto q = matrix(), k = matrix(), v = matrix(), out = matrix(), dout = matrix();
        const auto log_sum_exp = a.sums(rows);
        kernels::attention(a.exec, work, q, k, v, out, log_sum_exp);
        a.keep(out, log_sum_exp);
        const auto dq = matrix(), dk = matrix(), dv = matrix();
        const auto workspace = a.sums(kernels::attention_workspace<T>(work, kDHead));
        kernels::attention_backward(a.exec, work, q, k, v, out, log_sum_exp, dout, workspace, dq,
                                    dk, dv);
        a.keep(dq, dk, dv);
      });
    }
  }
}

TEST(Bfloat16, EndsOfAModel) {
  compare([](auto& a) {
    const auto y = a.matrix(12, 9), dy = a.matrix(12, 9), target = a.matrix(12, 9);
    const Vector<double> scales("KnapFormer::test", 12);
    Kokkos::deep_copy(scales, 0.3);
    a.results.push_back({kernels::squared_error(a.exec, y, target, scales, dy)});
    const auto sinusoids = a.matrix(5, 8);
    kernels::time_embedding(a.exec, a.sums(5), 1000, 1e4, sinusoids);
    const auto rows = to_device({3, 0, 7});
    const auto few = a.matrix(3, 9);
    kernels::gather_rows(a.exec, rows, y, few);
    kernels::scatter_rows(a.exec, rows, few, target);
    a.keep(dy, sinusoids, few, target);
  });
}

/// By the way that gemm() does not take where oneDNN is there, and with more than a tile each way.
template <class C>
void check_panels(bool turn_a, bool turn_b, float beta) {
  using kernels::Transpose;
  constexpr std::int64_t kM = 270, kN = 300, kK = 800;
  std::mt19937_64 random(29);
  const auto a =
      turn_a ? random_matrix<bfloat16>(kK, kM, random) : random_matrix<bfloat16>(kM, kK, random);
  const auto b =
      turn_b ? random_matrix<bfloat16>(kN, kK, random) : random_matrix<bfloat16>(kK, kN, random);
  const auto c = random_matrix<C>(kM, kN, random);
  const Matrix<double> wide_a("KnapFormer::test", a.extent(0), a.extent(1)),
      wide_b("KnapFormer::test", b.extent(0), b.extent(1)), wide_c("KnapFormer::test", kM, kN);
  from_host(to_host(a), wide_a);
  from_host(to_host(b), wide_b);
  from_host(to_host(c), wide_c);
  const Device exec;
  const Transpose ta = turn_a ? Transpose::kYes : Transpose::kNo;
  const Transpose tb = turn_b ? Transpose::kYes : Transpose::kNo;
  kernels::gemm(exec, ta, tb, 0.5, wide_a, wide_b, beta, wide_c);
  const auto other = Matrix<C>("KnapFormer::test", kM, kN);
  Kokkos::deep_copy(other, c);
  kernels::panel_gemm(exec, ta, tb, kM, kN, kK, 0.5F, a.data(), turn_a ? kM : kK, b.data(),
                      turn_b ? kK : kN, beta, c.data(), kN);
  kernels::gemm<C, bfloat16>(exec, ta, tb, 0.5F, a, b, beta, other);
  const double tolerance = sizeof(C) == 2 ? 0x1p-8 : 1e-5;
  const auto expected = to_host(wide_c);
  EXPECT_LE(difference(to_host(c), expected), tolerance);
  EXPECT_LE(difference(to_host(other), expected), tolerance);
}

TEST(Bfloat16, GemmInPanels) {
  for (const bool turn_a : {false, true}) {
    for (const bool turn_b : {false, true}) {
      for (const float beta : {0.0F, 1.0F, -0.5F}) {
        SCOPED_TRACE(::testing::Message() << turn_a << turn_b << beta);
        check_panels<float>(turn_a, turn_b, beta);
        check_panels<bfloat16>(turn_a, turn_b, beta);
      }
    }
  }
}

}  // namespace
}  // namespace knapformer::test
