// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/row_math.hpp"

// One function, several instruction sets, chosen when the program is loaded. It needs the loader's
// help, and a sanitizer's run-time is not ready when the choice is made. GCC knows these sets from
// version 12 on.
#if defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && defined(__x86_64__) && \
    defined(__linux__) && !defined(__CUDACC__) && !defined(__SANITIZE_ADDRESS__) &&      \
    !defined(__SANITIZE_THREAD__)
#define KNAPFORMER_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KNAPFORMER_CLONES
#endif

namespace knapformer::kernels::host {

constexpr int kLanes = 32;  // more than compilers unroll: they make vectors of it instead

// Templates cannot be cloned.
#define KNAPFORMER_HOST_ROWS(T)                                                                  \
  KNAPFORMER_CLONES void softmax_tile(const ScoreTile& tile, T* scores, SoftmaxState<T>* states, \
                                      T* out, std::int64_t out_distance, std::int64_t width) {   \
    for (int row = 0; row < tile.rows; ++row) {                                                  \
      softmax_tile_row<kLanes>(tile, row, scores, states, out, out_distance, width);             \
    }                                                                                            \
  }                                                                                              \
  KNAPFORMER_CLONES void softmax_gradient_tile(const ScoreTile& tile, T* scores, T* products,    \
                                               const T* log_sum_exp, const T* delta,             \
                                               std::int64_t step) {                              \
    for (int row = 0; row < tile.rows; ++row) {                                                  \
      softmax_gradient_tile_row(tile, row, scores, products, log_sum_exp, delta, step);          \
    }                                                                                            \
  }                                                                                              \
  KNAPFORMER_CLONES void swiglu(const T* gate, const T* up, T* out, std::int64_t n) {            \
    swiglu_row(gate, up, out, n);                                                                \
  }                                                                                              \
  KNAPFORMER_CLONES void swiglu_gradient(const T* gate, const T* up, const T* dout, T* dgate,    \
                                         T* dup, std::int64_t n) {                               \
    swiglu_gradient_row(gate, up, dout, dgate, dup, n);                                          \
  }

KNAPFORMER_HOST_ROWS(float)
KNAPFORMER_HOST_ROWS(double)

}  // namespace knapformer::kernels::host
