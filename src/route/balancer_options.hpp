// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/route/balancer.hpp>

namespace knapformer {

/// Collective. Ranks that disagree on the options, or have some that are not good for the group,
/// all throw the same Error.
void check_options(const Communicator& group, const BalancerOptions& options);

/// Differs where options differ.
std::uint64_t hash_of(const BalancerOptions& options);

}  // namespace knapformer
