// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>
#include <type_traits>

namespace knapformer::model {

/// Room for parameters in T: their own memory where they are T.
template <class T>
Vector<T> rounded_like([[maybe_unused]] const Device& exec,
                       const Vector<Accumulate<T>>& parameters) {
  if constexpr (std::is_same_v<T, Accumulate<T>>) {
    return parameters;
  } else {
    return Vector<T>(Kokkos::view_alloc(exec, "KnapFormer::rounded_parameters"),
                     parameters.extent(0));
  }
}

/// Brings rounded_like(parameters) up to date.
template <class T>
void round_parameters(const Device& exec, const Vector<Accumulate<T>>& parameters,
                      const Vector<T>& rounded);

}  // namespace knapformer::model
