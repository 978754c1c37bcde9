// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/plan/error.hpp>
#include <sstream>
#include <string_view>
#include <type_traits>

namespace knapformer {

/// Throws Error that names `what`, its value and the range, unless it is within.
template <class T>
void require_range(std::string_view what, T value, std::type_identity_t<T> lowest,
                   std::type_identity_t<T> highest) {
  if (value >= lowest && value <= highest) return;  // false for a NaN
  std::ostringstream message;
  message << what << " is " << value << "; expected " << lowest << " to " << highest;
  throw Error(message.str());
}

}  // namespace knapformer
