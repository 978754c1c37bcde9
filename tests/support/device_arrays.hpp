// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

// Arrays on the device, filled and read by the host, and gradients by finite differences.

#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <knapformer/kernels/types.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace knapformer::test {

/// The elements of a packed view, in memory order.
template <class View>
std::vector<typename View::non_const_value_type> to_host(const View& view) {
  std::vector<typename View::non_const_value_type> out(view.size());
  if (view.size() == 0) return out;
  using T = typename View::value_type;
  Kokkos::View<T*, Device, Kokkos::MemoryUnmanaged> flat(view.data(), view.size());
  Kokkos::View<typename View::non_const_value_type*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>
      host(out.data(), out.size());
  Kokkos::deep_copy(host, flat);
  return out;
}

/// The same as doubles.
template <class View>
std::vector<double> doubles(const View& view) {
  const auto values = to_host(view);
  return {values.begin(), values.end()};
}

template <class View, class U>
void from_host(const std::vector<U>& values, const View& view) {
  using T = typename View::non_const_value_type;
  ASSERT_EQ(values.size(), view.size());
  if (values.empty()) return;
  std::vector<T> converted(values.begin(), values.end());
  Kokkos::View<T*, Device, Kokkos::MemoryUnmanaged> flat(view.data(), view.size());
  Kokkos::deep_copy(flat, Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                              converted.data(), converted.size()));
}

/// Numbers in [-1, 1].
inline std::vector<double> random_values(std::int64_t n, std::mt19937_64& random) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (double& value : values) {
    value = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
  }
  return values;
}

template <class View>
View randomized(View view, std::mt19937_64& random) {
  from_host(random_values(static_cast<std::int64_t>(view.size()), random), view);
  return view;
}

template <class T>
Matrix<T> random_matrix(std::int64_t rows, std::int64_t columns, std::mt19937_64& random) {
  return randomized(Matrix<T>("KnapFormer::test", rows, columns), random);
}
template <class T>
Vector<T> random_vector(std::int64_t n, std::mt19937_64& random) {
  return randomized(Vector<T>("KnapFormer::test", n), random);
}
template <class T>
HeadRows<T> random_heads(std::int64_t rows, std::int64_t heads, std::int64_t d_head,
                         std::mt19937_64& random) {
  return randomized(HeadRows<T>("KnapFormer::test", rows, heads, d_head), random);
}

/// Largest difference, relative to the largest expected value. Infinite where one is not a number.
template <class T, class U>
double difference(const std::vector<T>& got, const std::vector<U>& expected) {
  if (got.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 0, scale = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double a = static_cast<double>(got[i]), b = static_cast<double>(expected[i]);
    if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(a - b));
    scale = std::max(scale, std::abs(b));
  }
  return largest == 0 ? 0 : largest / scale;
}

/// The norm of the difference, relative to that of what is expected. Infinite where a number is
/// none.
template <class T, class U>
double norm_error(const std::vector<T>& got, const std::vector<U>& expected) {
  if (got.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double a = static_cast<double>(got[i]), b = static_cast<double>(expected[i]);
    if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
    error += (a - b) * (a - b);
    scale += b * b;
  }
  return error == 0 ? 0 : std::sqrt(error / scale);
}

/// view -= values, in memory order: what was added to an array that began with them.
template <class View>
void subtract(const View& view, const std::vector<double>& values) {
  std::vector<double> rest = to_host(view);
  ASSERT_EQ(rest.size(), values.size());
  for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= values[i];
  from_host(rest, view);
}

/// As long double, since finite differences are between sums that are nearly the same.
template <class View>
long double dot(const View& view, const std::vector<double>& weights) {
  const auto values = to_host(view);
  long double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * weights[i];
  return sum;
}

/// Compares `gradient` with central differences of loss() in the elements of `variable`, which are
/// put back afterwards. At most `samples` elements are tried, drawn from parts of equal size.
template <class View, class Gradient, class Loss>
void expect_gradient(const std::string& name, const View& variable, const Gradient& gradient,
                     const Loss& loss, std::size_t samples = 60) {
  SCOPED_TRACE(name);
  constexpr double kStep = 1e-4;  // error of the differences: kStep^2 f''' / 6
  const std::vector<double> values = to_host(variable);
  const std::vector<double> all = to_host(gradient);
  ASSERT_EQ(all.size(), values.size());
  const std::size_t stride = std::max<std::size_t>(1, values.size() / samples);
  std::mt19937_64 random(19);
  std::vector<double> got, expected;
  for (std::size_t part = 0; part < values.size(); part += stride) {
    const std::size_t i = part + random() % std::min(stride, values.size() - part);
    const auto loss_at = [&](double shift) {
      std::vector<double> moved = values;
      moved[i] += shift;
      from_host(moved, variable);
      return loss();
    };
    // Two differences, extrapolated to the step 0.
    const auto wide = (loss_at(2 * kStep) - loss_at(-2 * kStep)) / (4 * kStep);
    const auto narrow = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    expected.push_back(static_cast<double>((4 * narrow - wide) / 3));
    got.push_back(all[i]);
  }
  from_host(values, variable);
  EXPECT_LT(difference(got, expected), 1e-8);
}

/// The slope of loss() along a random direction of `variable`, by differences extrapolated to the
/// step 0, less that of `gradient`; relative to the size of the gradient.
template <class View, class Loss>
double slope_error(const View& variable, const std::vector<double>& gradient, const Loss& loss,
                   std::mt19937_64& random) {
  const std::vector<double> values = to_host(variable);
  const auto direction = random_values(std::ssize(values), random);
  const auto loss_at = [&](double step) {
    std::vector<double> moved = values;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += step * direction[i];
    from_host(moved, variable);
    return loss();
  };
  constexpr double kStep = 1e-4;
  const auto wide = (loss_at(2 * kStep) - loss_at(-2 * kStep)) / (4 * kStep);
  const auto narrow = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
  from_host(values, variable);
  const double slope =
      std::inner_product(direction.begin(), direction.end(), gradient.begin(), 0.0);
  const double size =
      std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
  return std::abs(static_cast<double>((4 * narrow - wide) / 3) - slope) / (size > 0 ? size : 1);
}

}  // namespace knapformer::test
