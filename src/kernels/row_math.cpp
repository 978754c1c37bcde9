// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/row_math.hpp"

#include <atomic>
#include <knapformer/plan/error.hpp>
#include <string>

#if defined(__GNUC__) && defined(__x86_64__) && !defined(__CUDACC__)
#define KNAPFORMER_X86_SETS
#endif

namespace knapformer::kernels::host {
namespace {

constexpr int kLanes = 32;  // more than compilers unroll: they make vectors of it instead

std::atomic<InstructionSet>& used() {
  static std::atomic<InstructionSet> set = widest_instruction_set();
  return set;
}

// `body` is compiled once for each instruction set: it must be inlined wherever it is called.
#ifdef KNAPFORMER_X86_SETS
#define KNAPFORMER_INLINED __attribute__((always_inline))

template <class Body>
__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"))) void run_avx512(Body body) {
  body();
}

template <class Body>
__attribute__((target("avx2,fma"))) void run_avx2(Body body) {
  body();
}

template <class Body>
void run(Body body) {
  switch (used().load(std::memory_order_relaxed)) {
    case InstructionSet::kAvx512:
      return run_avx512(body);
    case InstructionSet::kAvx2:
      return run_avx2(body);
    case InstructionSet::kBaseline:
      return body();
  }
}
#else
#define KNAPFORMER_INLINED

template <class Body>
void run(Body body) {
  body();
}
#endif

}  // namespace

InstructionSet widest_instruction_set() {
#ifdef KNAPFORMER_X86_SETS
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
    return InstructionSet::kAvx512;
  }
  if (avx2) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kBaseline;
}

void use_instruction_set(InstructionSet set) {
  if (set > widest_instruction_set()) {
    throw Error("this CPU or build lacks instruction set " + std::to_string(static_cast<int>(set)));
  }
  used() = set;
}

template <class T>
void softmax_tile(const ScoreTile& tile, T* scores, SoftmaxState<T>* states, T* out,
                  std::int64_t out_distance, std::int64_t width) {
  run([=]() KNAPFORMER_INLINED {
    for (int row = 0; row < tile.rows; ++row) {
      softmax_tile_row<kLanes>(tile, row, scores, states, out, out_distance, width);
    }
  });
}

template <class T>
void softmax_gradient_tile(const ScoreTile& tile, T* scores, T* products, const T* log_sum_exp,
                           const T* delta, std::int64_t step) {
  run([=]() KNAPFORMER_INLINED {
    for (int row = 0; row < tile.rows; ++row) {
      softmax_gradient_tile_row(tile, row, scores, products, log_sum_exp, delta, step);
    }
  });
}

template <class T>
void swiglu(const T* gate, const T* up, T* out, std::int64_t n) {
  run([=]() KNAPFORMER_INLINED { swiglu_row(gate, up, out, n); });
}

template <class T>
void swiglu_gradient(const T* gate, const T* up, const T* dout, T* dgate, T* dup, std::int64_t n) {
  run([=]() KNAPFORMER_INLINED { swiglu_gradient_row(gate, up, dout, dgate, dup, n); });
}

template <class T>
void bias_gelu(const T* x, const T* bias, T* y, std::int64_t n) {
  run([=]() KNAPFORMER_INLINED { bias_gelu_row(x, bias, y, n); });
}

template <class T>
void bias_gelu_gradient(const T* x, const T* bias, const T* dy, T* dx, std::int64_t n) {
  run([=]() KNAPFORMER_INLINED { bias_gelu_gradient_row(x, bias, dy, dx, n); });
}

void widen(const bfloat16* from, float* to, std::int64_t n) {
  run([=]() KNAPFORMER_INLINED {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
  });
}

void narrow(const float* from, bfloat16* to, std::int64_t n) {
  run([=]() KNAPFORMER_INLINED {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
  });
}

#define KNAPFORMER_INSTANTIATE_TILES(T)                                                \
  template void softmax_tile(const ScoreTile&, T*, SoftmaxState<T>*, T*, std::int64_t, \
                             std::int64_t);                                            \
  template void softmax_gradient_tile(const ScoreTile&, T*, T*, const T*, const T*, std::int64_t);
KNAPFORMER_INSTANTIATE_TILES(float)
KNAPFORMER_INSTANTIATE_TILES(double)

#define KNAPFORMER_INSTANTIATE_ROWS(T)                                               \
  template void swiglu(const T*, const T*, T*, std::int64_t);                        \
  template void swiglu_gradient(const T*, const T*, const T*, T*, T*, std::int64_t); \
  template void bias_gelu(const T*, const T*, T*, std::int64_t);                     \
  template void bias_gelu_gradient(const T*, const T*, const T*, T*, std::int64_t);
KNAPFORMER_INSTANTIATE_ROWS(float)
KNAPFORMER_INSTANTIATE_ROWS(double)
KNAPFORMER_INSTANTIATE_ROWS(bfloat16)

}  // namespace knapformer::kernels::host
