// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>
#include <knapformer/model/parameter_info.hpp>
#include <knapformer/plan/error.hpp>
#include <string>
#include <utility>
#include <vector>

namespace knapformer::model {

/// Hands out the parameters of a flat array in the order of their layout.
template <class T>
class ParameterViews {
 public:
  /// Throws Error unless `flat` has the size of the layout.
  ParameterViews(const char* owner, std::vector<ParameterInfo> layout, const Vector<T>& flat)
      : layout_(std::move(layout)), next_(layout_.begin()), flat_(flat) {
    const std::int64_t size = total_size(layout_);
    if (static_cast<std::int64_t>(flat.extent(0)) != size) {
      throw Error(std::string(owner) + ": " + std::to_string(flat.extent(0)) +
                  " parameters given, expected " + std::to_string(size));
    }
  }
  ParameterViews(const ParameterViews&) = delete;
  ParameterViews& operator=(const ParameterViews&) = delete;

  Vector<T> vector() {
    const ParameterInfo& info = *next_++;
    return Vector<T>(flat_.data() + info.offset, info.rows);
  }
  Matrix<T> matrix() {
    const ParameterInfo& info = *next_++;
    return Matrix<T>(flat_.data() + info.offset, info.rows, info.columns);
  }

 private:
  std::vector<ParameterInfo> layout_;
  std::vector<ParameterInfo>::const_iterator next_;
  Vector<T> flat_;
};

}  // namespace knapformer::model
