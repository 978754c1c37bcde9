// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "knapformer/train/manifest.hpp"

namespace knapformer {

/// Throws Error unless both rates are finite and above zero.
void check_rates(const TokenRates& rates);

}  // namespace knapformer
