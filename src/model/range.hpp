// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A part of a view, by where it begins and its size.

#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

namespace knapformer::model {

inline Kokkos::pair<std::int64_t, std::int64_t> range(std::int64_t first, std::int64_t size) {
  return {first, first + size};
}

}  // namespace knapformer::model
