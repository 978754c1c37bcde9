// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <initializer_list>
#include <knapformer/plan/error.hpp>
#include <string>

namespace knapformer::kernels {

/// Throws Error when `view` does not have the extents wanted. `name` is "kernel: argument".
template <class View>
void require_extents(const char* name, const View& view,
                     std::initializer_list<std::int64_t> wanted) {
  static_assert(View::rank() >= 1);
  std::string got, expected;
  bool same = true;
  std::size_t dimension = 0;
  for (std::int64_t extent : wanted) {
    same = same && static_cast<std::int64_t>(view.extent(dimension++)) == extent;
  }
  if (same) return;
  dimension = 0;
  for (std::int64_t extent : wanted) {
    const char* times = dimension > 0 ? " x " : "";
    got += times + std::to_string(view.extent(dimension++));
    expected += times + std::to_string(extent);
  }
  throw Error(std::string(name) + " is " + got + ", expected " + expected);
}

}  // namespace knapformer::kernels
