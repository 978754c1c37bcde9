// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/model/routed_attention.hpp>
#include <type_traits>

namespace knapformer::model {

/// Starts an exchange or waits for it between two calls of the observer.
template <class Step>
auto observed(const Device& exec, const ExchangeObserver& observer, const Step& step) {
  if (!observer) return step();
  const auto tell = [&](bool begins) {
    exec.fence("KnapFormer::around_exchange");
    observer(begins);
  };
  tell(true);
  if constexpr (std::is_void_v<decltype(step())>) {
    step();
    tell(false);
  } else {
    auto result = step();
    tell(false);
    return result;
  }
}

}  // namespace knapformer::model
