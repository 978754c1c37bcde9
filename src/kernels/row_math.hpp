// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

// The arithmetic on contiguous rows that holds exponentials. Written once, in loops that compilers
// turn into vector code; a device calls it for its rows or elements, the host through functions
// that are compiled for several instruction sets (row_math.cpp).

#include <Kokkos_Macros.hpp>
#include <bit>
#include <cstdint>
#include <knapformer/comm/bfloat16.hpp>
#include <limits>

namespace knapformer::kernels {

template <class T>
struct ExponentialConstants;

template <>
struct ExponentialConstants<float> {
  using Bits = std::int32_t;
  static constexpr int kMantissa = 23;
  static constexpr int kTerms = 7;
  static constexpr float kLowest = -87, kHighest = 88;
  // ln 2 in two parts: times an integer, the first has no rounding error.
  static constexpr float kLn2High = 0x1.63p-1F, kLn2Low = -0x1.bd0106p-13F;
};

template <>
struct ExponentialConstants<double> {
  using Bits = std::int64_t;
  static constexpr int kMantissa = 52;
  static constexpr int kTerms = 13;
  static constexpr double kLowest = -708, kHighest = 709;
  static constexpr double kLn2High = 0x1.62e42fefa0000p-1, kLn2Low = 0x1.cf79abc9e3b3ap-40;
};

/// e^x within 1.5 units in the last place, 1 with fused multiply-adds, without branches or calls; 0
/// below the smallest normal number.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T exponential(T x) {
  using Constants = ExponentialConstants<T>;
  using Bits = typename Constants::Bits;
  // Adding this rounds to an integer, which then stands in the last bits of the sum.
  constexpr T kRound = T(1.5) * T(Bits(1) << Constants::kMantissa);
  T clamped = x < Constants::kLowest ? Constants::kLowest : x;
  clamped = clamped > Constants::kHighest ? Constants::kHighest : clamped;
  const T shifted = clamped * T(1.4426950408889634) + kRound;
  const T n = shifted - kRound;
  const T r = (clamped - n * Constants::kLn2High) - n * Constants::kLn2Low;
  // Taylor's series by Horner's rule; |r| is at most ln(2) / 2.
  constexpr T kInverseFactorials[] = {1,
                                      1,
                                      T(1) / 2,
                                      T(1) / 6,
                                      T(1) / 24,
                                      T(1) / 120,
                                      T(1) / 720,
                                      T(1) / 5040,
                                      T(1) / 40320,
                                      T(1) / 362880,
                                      T(1) / 3628800,
                                      T(1) / 39916800,
                                      T(1) / 479001600,
                                      T(1) / 6227020800};
  T sum = kInverseFactorials[Constants::kTerms];
  for (int k = Constants::kTerms - 1; k >= 0; --k) sum = sum * r + kInverseFactorials[k];
  const T scaled = std::bit_cast<T>(std::bit_cast<Bits>(sum) +
                                    (std::bit_cast<Bits>(shifted) << Constants::kMantissa));
  return x < Constants::kLowest ? T(0) : scaled + (clamped - clamped);  // the zero is NaN for a NaN
}

/// What the running softmax of one query keeps between key tiles.
template <class T>
struct SoftmaxState {
  T maximum = -std::numeric_limits<T>::infinity();
  T sum = 0;
};

/// scores[0, n) become exp(score - maximum so far). Returns what earlier results must be multiplied
/// by. Lanes: running maxima and sums side by side.
template <int Lanes, class T>
KOKKOS_FORCEINLINE_FUNCTION T softmax_row(T* KOKKOS_RESTRICT scores, int n,
                                          SoftmaxState<T>& state) {
  T maxima[Lanes], sums[Lanes];
  for (int l = 0; l < Lanes; ++l) {
    maxima[l] = state.maximum;
    sums[l] = 0;
  }
  const int whole = n - n % Lanes;
  for (int j = 0; j < whole; j += Lanes) {
    for (int l = 0; l < Lanes; ++l) {
      maxima[l] = scores[j + l] > maxima[l] ? scores[j + l] : maxima[l];
    }
  }
  T maximum = maxima[0];
  for (int j = whole; j < n; ++j) maximum = scores[j] > maximum ? scores[j] : maximum;
  for (int l = 1; l < Lanes; ++l) maximum = maxima[l] > maximum ? maxima[l] : maximum;

  for (int j = 0; j < n; ++j) scores[j] = exponential(scores[j] - maximum);

  for (int j = 0; j < whole; j += Lanes) {
    for (int l = 0; l < Lanes; ++l) sums[l] += scores[j + l];
  }
  T sum = 0;
  for (int l = 0; l < Lanes; ++l) sum += sums[l];
  for (int j = whole; j < n; ++j) sum += scores[j];

  const T correction = exponential(state.maximum - maximum);
  state.sum = state.sum * correction + sum;
  state.maximum = maximum;
  return correction;
}

/// scores[0, n) become probabilities, and products[0, n) the scores' gradients:
/// p = exp(score - log_sum_exp), p * (product - delta).
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void softmax_gradient_row(T* KOKKOS_RESTRICT scores,
                                                      T* KOKKOS_RESTRICT products, int n,
                                                      T log_sum_exp, T delta) {
  for (int j = 0; j < n; ++j) {
    const T p = exponential(scores[j] - log_sum_exp);
    scores[j] = p;
    products[j] = p * (products[j] - delta);
  }
}

/// A tile of attention scores, `distance` elements between rows. With `causal`, columns from
/// `diagonal` + row on do not count.
struct ScoreTile {
  int rows = 0;
  int columns = 0;
  int distance = 0;
  bool causal = false;
  std::int64_t diagonal = 0;

  KOKKOS_FORCEINLINE_FUNCTION int valid(int row) const {
    return causal && diagonal + row < columns ? static_cast<int>(diagonal + row) : columns;
  }
};

/// One row of a tile in the forward pass: scores become probabilities, not yet divided by their
/// sum, and the row of `out` [rows x width] from earlier key tiles is corrected.
template <int Lanes, class T>
KOKKOS_FORCEINLINE_FUNCTION void softmax_tile_row(const ScoreTile& tile, int row, T* scores,
                                                  SoftmaxState<T>* states, T* out,
                                                  std::int64_t out_distance, std::int64_t width) {
  const int valid = tile.valid(row);
  T* const own = scores + row * tile.distance;
  const T correction = softmax_row<Lanes>(own, valid, states[row]);
  for (int j = valid; j < tile.columns; ++j) own[j] = 0;
  T* const sums = out + row * out_distance;
  for (std::int64_t c = 0; c < width; ++c) sums[c] *= correction;
}

/// One row of a tile in the backward pass. log_sum_exp and delta have `step` elements between rows.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void softmax_gradient_tile_row(const ScoreTile& tile, int row,
                                                           T* scores, T* products,
                                                           const T* log_sum_exp, const T* delta,
                                                           std::int64_t step) {
  const int valid = tile.valid(row);
  T* const own = scores + row * tile.distance;
  T* const own_products = products + row * tile.distance;
  softmax_gradient_row(own, own_products, valid, log_sum_exp[row * step], delta[row * step]);
  for (int j = valid; j < tile.columns; ++j) own[j] = own_products[j] = 0;
}

/// out = silu(gate) * up.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void swiglu_row(const T* gate, const T* up, T* KOKKOS_RESTRICT out,
                                            std::int64_t n) {
  using A = Accumulate<T>;
  for (std::int64_t i = 0; i < n; ++i) {
    const A x = gate[i];
    out[i] = x / (A(1) + exponential(-x)) * up[i];
  }
}

template <class T>
KOKKOS_FORCEINLINE_FUNCTION void swiglu_gradient_row(const T* gate, const T* up, const T* dout,
                                                     T* KOKKOS_RESTRICT dgate,
                                                     T* KOKKOS_RESTRICT dup, std::int64_t n) {
  using A = Accumulate<T>;
  for (std::int64_t i = 0; i < n; ++i) {
    const A x = gate[i], g = dout[i];
    const A sigmoid = A(1) / (A(1) + exponential(-x));
    const A silu = x * sigmoid;
    dup[i] = g * silu;
    dgate[i] = g * up[i] * (sigmoid + silu * (A(1) - sigmoid));
  }
}

/// y = gelu(z), z = x + bias, in the form with tanh: z * sigmoid(2 u), 2 u = a (z + b z^3).
template <class T>
struct Gelu {
  static constexpr T kA = T(1.5957691216057308);  // sqrt(8 / pi)
  static constexpr T kB = T(0.044715);
};

template <class T>
KOKKOS_FORCEINLINE_FUNCTION void bias_gelu_row(const T* x, const T* bias, T* KOKKOS_RESTRICT y,
                                               std::int64_t n) {
  using A = Accumulate<T>;
  for (std::int64_t i = 0; i < n; ++i) {
    const A z = x[i] + bias[i];
    y[i] = z / (A(1) + exponential(-Gelu<A>::kA * (z + Gelu<A>::kB * z * z * z)));
  }
}

template <class T>
KOKKOS_FORCEINLINE_FUNCTION void bias_gelu_gradient_row(const T* x, const T* bias, const T* dy,
                                                        T* KOKKOS_RESTRICT dx, std::int64_t n) {
  using A = Accumulate<T>;
  for (std::int64_t i = 0; i < n; ++i) {
    const A z = x[i] + bias[i];
    const A sigmoid = A(1) / (A(1) + exponential(-Gelu<A>::kA * (z + Gelu<A>::kB * z * z * z)));
    const A slope = Gelu<A>::kA * (A(1) + A(3) * Gelu<A>::kB * z * z);
    dx[i] = dy[i] * (sigmoid + z * slope * sigmoid * (A(1) - sigmoid));
  }
}

/// The same on the host, over whole tiles and rows, with the widest vectors that the CPU has.
namespace host {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

/// The widest that the CPU has and this build knows: used unless a test asks for another.
InstructionSet widest_instruction_set();

/// From now on these functions use `set`. Throws Error when it is beyond the widest. For tests.
void use_instruction_set(InstructionSet set);

template <class T>
void softmax_tile(const ScoreTile& tile, T* scores, SoftmaxState<T>* states, T* out,
                  std::int64_t out_distance, std::int64_t width);
template <class T>
void softmax_gradient_tile(const ScoreTile& tile, T* scores, T* products, const T* log_sum_exp,
                           const T* delta, std::int64_t step);
void widen(const bfloat16* from, float* to, std::int64_t n);
void narrow(const float* from, bfloat16* to, std::int64_t n);
template <class T>
void swiglu(const T* gate, const T* up, T* out, std::int64_t n);
template <class T>
void swiglu_gradient(const T* gate, const T* up, const T* dout, T* dgate, T* dup, std::int64_t n);
template <class T>
void bias_gelu(const T* x, const T* bias, T* y, std::int64_t n);
template <class T>
void bias_gelu_gradient(const T* x, const T* bias, const T* dy, T* dx, std::int64_t n);

}  // namespace host
}  // namespace knapformer::kernels
