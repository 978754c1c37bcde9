// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

// Blocks and the golden files that they are compared with.

#include <algorithm>
#include <knapformer/model/parameter_info.hpp>
#include <model/model_support.hpp>
#include <support/golden_file.hpp>

namespace knapformer::test {

template <class T>
Matrix<T> golden_matrix(const GoldenArray& array) {
  Matrix<T> view("KnapFormer::test", array.extents.at(0), array.extents.at(1));
  from_host(array.values, view);
  return view;
}

/// cos and sin, each of which the file gives twice.
template <class T>
Matrix<T> golden_rope(const GoldenFile& file) {
  const GoldenArray table = file.array("/input/rope_cos_sin");
  const std::int64_t rows = table.extents.at(0), d_head = table.extents.at(1) / 2;
  std::vector<double> values;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto at = table.values.begin() + row * 2 * d_head;
    values.insert(values.end(), at, at + d_head / 2);
    values.insert(values.end(), at + d_head, at + d_head + d_head / 2);
  }
  Matrix<T> view("KnapFormer::test", rows, d_head);
  from_host(values, view);
  return view;
}

inline std::vector<std::int64_t> golden_integers(const GoldenFile& file, const std::string& name) {
  const std::vector<double> values = file.array(name).values;
  return {values.begin(), values.end()};
}

/// Compares with arrays of a file, element by element or in norm, and keeps the largest difference.
class GoldenComparison {
 public:
  GoldenComparison(const GoldenFile& file, double tolerance, bool in_norm = false)
      : file_(file), tolerance_(tolerance), in_norm_(in_norm) {}
  ~GoldenComparison() {
    ::testing::Test::RecordProperty("largest_difference", ::testing::PrintToString(worst_));
  }

  template <class T>
  void operator()(const std::string& name, const std::vector<T>& got) {
    const std::vector<double> expected = file_.array(name).values;
    const double error = in_norm_ ? norm_error(got, expected) : difference(got, expected);
    EXPECT_LE(error, tolerance_) << name;
    worst_ = std::max(worst_, error);
  }

  /// The gradients of all parameters.
  template <class T>
  void gradients(const std::vector<ParameterInfo>& layout, const Vector<T>& flat) {
    const std::vector<T> all = to_host(flat);
    for (const ParameterInfo& info : layout) {
      const auto first = all.begin() + info.offset;
      (*this)("/grad/param/" + info.name, std::vector<T>(first, first + info.size()));
    }
  }

 private:
  const GoldenFile& file_;
  double tolerance_;
  bool in_norm_;
  double worst_ = 0;
};

/// The parameters of a file in the order of a layout.
template <class T>
Vector<T> golden_parameters(const GoldenFile& file, const std::vector<ParameterInfo>& layout) {
  std::vector<double> values;
  for (const ParameterInfo& info : layout) {
    const std::vector<double> one = file.array("/param/" + info.name).values;
    EXPECT_EQ(std::ssize(one), info.size()) << info.name;
    values.insert(values.end(), one.begin(), one.end());
  }
  Vector<T> flat("KnapFormer::test", values.size());
  from_host(values, flat);
  return flat;
}

}  // namespace knapformer::test
