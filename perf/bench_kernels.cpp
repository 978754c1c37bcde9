// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Every kernel against its roof, the rate of a matrix product or the bandwidth of a copy, which is
// measured in turn with it. README.md says what the names and counters mean.

#include <benchmark/benchmark.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <knapformer/kernels/attention.hpp>
#include <knapformer/kernels/gelu.hpp>
#include <knapformer/kernels/gemm.hpp>
#include <knapformer/kernels/modulation.hpp>
#include <knapformer/kernels/rms_norm.hpp>
#include <knapformer/kernels/split_qkv.hpp>
#include <knapformer/kernels/swiglu.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "medians.hpp"

namespace knapformer::perf {
namespace {

constexpr int kRepetitions = 21;

Device exec() { return {}; }

/// Numbers in [-1, 1), the same in every run.
template <class View>
View filled(View view) {
  using T = typename View::value_type;
  T* const data = view.data();
  Kokkos::parallel_for(
      "KnapFormer::bench_fill",
      Kokkos::RangePolicy<Device, Kokkos::IndexType<std::int64_t>>(
          exec(), 0, static_cast<std::int64_t>(view.size())),
      KOKKOS_LAMBDA(std::int64_t i) {
        const auto mixed = static_cast<std::uint32_t>(i) * 2654435761U;
        data[i] = static_cast<T>(mixed >> 8) / T(1 << 23) - T(1);
      });
  return view;
}

template <class T>
Matrix<T> filled_matrix(std::int64_t rows, std::int64_t columns) {
  return filled(Matrix<T>(Kokkos::view_alloc(Kokkos::WithoutInitializing, "KnapFormer::bench"),
                          rows, columns));
}

template <class Call>
double fenced_seconds_of(const Call& call) {
  exec().fence("KnapFormer::bench");
  return seconds_of([&] {
    call();
    exec().fence("KnapFormer::bench");
  });
}

/// Calls of a function, and the FLOPs or bytes of one.
struct Work {
  double amount;
  std::function<void()> call;
};

template <class T>
Work matrix_product() {
  constexpr std::int64_t kSize = 2048;
  const auto a = filled_matrix<T>(kSize, kSize), b = filled_matrix<T>(kSize, kSize);
  const auto c = filled_matrix<T>(kSize, kSize);
  return {2.0 * kSize * kSize * kSize, [=] {
            kernels::gemm(exec(), kernels::Transpose::kNo, kernels::Transpose::kNo, T(1), a, b,
                          T(0), c);
          }};
}

/// Rows enough for no cache, as wide as FLUX's.
constexpr std::int64_t kRows = 8192, kWidth = 3072;

template <class T>
double bytes_of(double arrays) {
  return arrays * kRows * kWidth * sizeof(T);
}

template <class T>
Work copy() {
  const auto from = filled_matrix<T>(kRows, kWidth), to = filled_matrix<T>(kRows, kWidth);
  return {bytes_of<T>(2), [=] { Kokkos::deep_copy(exec(), to, from); }};
}

/// What a kernel's rate is divided by, and the counter that has the ratio.
struct Roof {
  const char* counter;
  Work work;
};

// Every iteration runs the roofs, then the kernel: all see the same state of the machine. Short
// kernels are called until they have done `least` FLOPs or bytes. Groof is the rate of the first.
void compare(benchmark::State& state, const std::vector<Roof>& roofs, const Work& kernel,
             double least) {
  const auto calls = static_cast<std::int64_t>(std::max(1.0, std::ceil(least / kernel.amount)));
  for (const Roof& roof : roofs) roof.work.call();
  kernel.call();
  double kernel_seconds = 0;
  std::vector<double> roof_seconds(roofs.size());
  for (auto _ : state) {
    for (std::size_t i = 0; i < roofs.size(); ++i) {
      roof_seconds[i] += fenced_seconds_of(roofs[i].work.call);
    }
    const double taken = fenced_seconds_of([&] {
                           for (std::int64_t i = 0; i < calls; ++i) kernel.call();
                         }) /
                         static_cast<double>(calls);
    kernel_seconds += taken;
    state.SetIterationTime(taken);
  }
  const auto iterations = static_cast<double>(state.iterations());
  const double rate = iterations * kernel.amount / kernel_seconds;
  state.counters["Grate"] = rate * 1e-9;
  for (std::size_t i = roofs.size(); i-- > 0;) {
    const double roof_rate = iterations * roofs[i].work.amount / roof_seconds[i];
    state.counters["Groof"] = roof_rate * 1e-9;
    state.counters[roofs[i].counter] = rate / roof_rate;
  }
}

void add_case(bool set_repetitions, const std::string& name,
              const std::function<void(benchmark::State&)>& run) {
  auto* added = benchmark::RegisterBenchmark(name.c_str(), run);
  added->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(1);
  if (set_repetitions) added->Repetitions(kRepetitions)->DisplayAggregatesOnly();
}

struct AttentionShape {
  std::int64_t length, d_head, sequences, heads;
  bool causal;
};

template <class T>
Work attention(const AttentionShape& shape, bool backward) {
  std::vector<AttentionProblem> problems;
  for (std::int64_t i = 0; i < shape.sequences; ++i) {
    problems.push_back(
        {.offset = i * shape.length * shape.heads, .length = shape.length, .heads = shape.heads});
  }
  const auto work = kernels::make_attention_work(exec(), problems, shape.causal);
  const auto matrix = [&] { return filled_matrix<T>(work.head_rows, shape.d_head); };
  const auto q = matrix(), k = matrix(), v = matrix(), out = matrix();
  const Vector<Accumulate<T>> log_sum_exp("KnapFormer::bench", work.head_rows);
  const auto forward = [=] { kernels::attention(exec(), work, q, k, v, out, log_sum_exp); };
  const double length = static_cast<double>(shape.length);
  const double pairs = length * length / (shape.causal ? 2 : 1) *
                       static_cast<double>(shape.sequences * shape.heads * shape.d_head);
  if (!backward) return {4 * pairs, forward};
  forward();
  const auto dout = matrix(), dq = matrix(), dk = matrix(), dv = matrix();
  const Vector<Accumulate<T>> workspace("KnapFormer::bench",
                                        kernels::attention_workspace<T>(work, shape.d_head));
  return {10 * pairs, [=] {
            kernels::attention_backward(exec(), work, q, k, v, out, log_sum_exp, dout, workspace,
                                        dq, dk, dv);
          }};
}

/// One sequence of every length with heads that make 2^13 head rows; and short ones, one head each.
template <class T>
void add_attention(bool set_repetitions, const std::string& type) {
  constexpr std::int64_t kHeadRows = 1 << 13;
  std::vector<AttentionShape> shapes;
  for (const std::int64_t d_head : {64, 128}) {
    for (const bool causal : {false, true}) {
      for (std::int64_t length = 1 << 8; length <= 1 << 14; length *= 2) {
        shapes.push_back(
            {length, d_head, 1, std::max<std::int64_t>(1, kHeadRows / length), causal});
      }
      shapes.push_back({64, d_head, kHeadRows / 64, 1, causal});
    }
  }
  for (const AttentionShape& shape : shapes) {
    for (const bool backward : {false, true}) {
      const std::string name =
          std::string(backward ? "attention_backward/" : "attention/") + type +
          (shape.causal ? "/causal" : "/full") + "/d_head:" + std::to_string(shape.d_head) +
          "/tokens:" + std::to_string(shape.length) + "/heads:" + std::to_string(shape.heads) +
          "/sequences:" + std::to_string(shape.sequences);
      add_case(set_repetitions, name, [=](benchmark::State& state) {
        std::vector<Roof> roofs = {{"ratio_to_gemm", matrix_product<Accumulate<T>>()}};
        if (std::is_same_v<T, bfloat16>) {
          roofs.push_back({"ratio_to_bfloat16_gemm", matrix_product<T>()});
        }
        compare(state, roofs, attention<T>(shape, backward), 4e9);
      });
    }
  }
}

template <class T>
Work rms_norm(bool backward) {
  const auto x = filled_matrix<T>(kRows, kWidth), y = filled_matrix<T>(kRows, kWidth);
  const auto weight = filled(Vector<T>("KnapFormer::bench", kWidth));
  const Vector<Accumulate<T>> inverse_rms("KnapFormer::bench", kRows),
      dweight("KnapFormer::bench", kWidth);
  const auto forward = [=] { kernels::rms_norm(exec(), x, weight, 1e-6, y, inverse_rms); };
  if (!backward) return {bytes_of<T>(2), forward};
  forward();
  const auto dx = filled_matrix<T>(kRows, kWidth);
  return {bytes_of<T>(4),
          [=] { kernels::rms_norm_backward(exec(), x, weight, inverse_rms, y, dx, dweight); }};
}

template <class T>
Work split_qkv(bool backward) {
  constexpr std::int64_t kDHead = 128, kHeads = kWidth / kDHead;
  const auto qkv = filled_matrix<T>(kRows, 3 * kWidth);
  const auto rope = filled_matrix<Accumulate<T>>(kRows, kDHead);
  const auto weight = filled(Vector<T>("KnapFormer::bench", kDHead));
  const auto heads = [] { return filled(HeadRows<T>("KnapFormer::bench", kRows, kHeads, kDHead)); };
  const auto q = heads(), k = heads(), v = heads();
  const Matrix<Accumulate<T>> inverse_rms("KnapFormer::bench", kRows, 2 * kHeads);
  const auto forward = [=] {
    kernels::split_qkv(exec(), qkv, weight, weight, rope, 1e-6, q, k, v, inverse_rms);
  };
  if (!backward) return {bytes_of<T>(6), forward};
  forward();
  const auto dqkv = filled_matrix<T>(kRows, 3 * kWidth);
  const Vector<Accumulate<T>> dweight("KnapFormer::bench", kDHead);
  return {bytes_of<T>(9), [=] {
            kernels::split_qkv_backward(exec(), qkv, weight, weight, rope, inverse_rms, q, k, v,
                                        dqkv, dweight, dweight);
          }};
}

template <class T>
Work swiglu(bool backward) {
  const auto gate_up = filled_matrix<T>(kRows, 2 * kWidth), out = filled_matrix<T>(kRows, kWidth);
  if (!backward) {
    return {bytes_of<T>(3), [=] { kernels::swiglu(exec(), gate_up, out); }};
  }
  const auto dgate_up = filled_matrix<T>(kRows, 2 * kWidth);
  return {bytes_of<T>(5), [=] { kernels::swiglu_backward(exec(), gate_up, out, dgate_up); }};
}

template <class T>
Work bias_gelu(bool backward) {
  const auto x = filled_matrix<T>(kRows, kWidth), y = filled_matrix<T>(kRows, kWidth);
  const auto bias = filled(Vector<T>("KnapFormer::bench", kWidth));
  if (!backward) return {bytes_of<T>(2), [=] { kernels::bias_gelu(exec(), x, bias, y); }};
  const auto dx = filled_matrix<T>(kRows, kWidth);
  return {bytes_of<T>(3), [=] { kernels::bias_gelu_backward(exec(), x, bias, y, dx); }};
}

/// The rows are those of kChunks sequences.
constexpr std::int64_t kChunks = 8;

ChunkOffsets chunk_offsets() {
  const Kokkos::View<std::int64_t*, Device> offsets("KnapFormer::bench", kChunks + 1);
  Kokkos::parallel_for(
      "KnapFormer::bench_offsets", Kokkos::RangePolicy<Device>(exec(), 0, kChunks + 1),
      KOKKOS_LAMBDA(std::int64_t i) { offsets(i) = i * (kRows / kChunks); });
  return offsets;
}

template <class T>
Work modulated_norm(bool backward) {
  const auto x = filled_matrix<T>(kRows, kWidth), y = filled_matrix<T>(kRows, kWidth);
  const auto shift = filled_matrix<T>(kChunks, kWidth), scale = filled_matrix<T>(kChunks, kWidth);
  const Matrix<Accumulate<T>> moments("KnapFormer::bench", kRows, 2);
  const auto offsets = chunk_offsets();
  const auto forward = [=] {
    kernels::modulated_norm(exec(), offsets, x, shift, scale, 1e-6, y, moments);
  };
  if (!backward) return {bytes_of<T>(2), forward};
  forward();
  const auto dx = filled_matrix<T>(kRows, kWidth);
  const auto dscale = filled_matrix<T>(kChunks, kWidth);
  return {bytes_of<T>(4), [=] {
            kernels::modulated_norm_backward(exec(), offsets, x, scale, moments, y, dx, shift,
                                             dscale);
          }};
}

template <class T>
Work gated_residual(bool backward) {
  const auto x = filled_matrix<T>(kRows, kWidth), y = filled_matrix<T>(kRows, kWidth);
  const auto gate = filled_matrix<T>(kChunks, kWidth), dgate = filled_matrix<T>(kChunks, kWidth);
  const auto other = filled_matrix<T>(kRows, kWidth);  // the residual, or dx
  const auto offsets = chunk_offsets();
  return {bytes_of<T>(3), [=] {
            if (backward) {
              kernels::gated_residual_backward(exec(), offsets, x, gate, y, other, dgate);
            } else {
              kernels::gated_residual(exec(), offsets, x, gate, other, y);
            }
          }};
}

template <class T>
void add_rows(bool set_repetitions, const std::string& type) {
  const std::pair<const char*, Work (*)(bool)> all[] = {{"rms_norm", rms_norm<T>},
                                                        {"split_qkv", split_qkv<T>},
                                                        {"swiglu", swiglu<T>},
                                                        {"bias_gelu", bias_gelu<T>},
                                                        {"modulated_norm", modulated_norm<T>},
                                                        {"gated_residual", gated_residual<T>}};
  for (const auto& [name, make] : all) {
    for (const bool backward : {false, true}) {
      add_case(set_repetitions,
               std::string(name) + (backward ? "_backward/" : "/") + type +
                   "/rows:" + std::to_string(kRows) + "/width:" + std::to_string(kWidth),
               [make = make, backward](benchmark::State& state) {
                 compare(state, {{"ratio_to_bandwidth", copy<T>()}}, make(backward), 0);
               });
    }
  }
}

void add_all(bool set_repetitions) {
  add_case(set_repetitions, "matrix_product/bfloat16", [](benchmark::State& state) {
    compare(state, {{"ratio_to_gemm", matrix_product<float>()}}, matrix_product<bfloat16>(), 4e9);
  });
  add_attention<float>(set_repetitions, "float");
  add_attention<double>(set_repetitions, "double");
  add_attention<bfloat16>(set_repetitions, "bfloat16");
  add_rows<float>(set_repetitions, "float");
  add_rows<double>(set_repetitions, "double");
  add_rows<bfloat16>(set_repetitions, "bfloat16");
}

}  // namespace
}  // namespace knapformer::perf

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  return knapformer::perf::run_benchmarks(argc, argv, knapformer::perf::add_all);
}
