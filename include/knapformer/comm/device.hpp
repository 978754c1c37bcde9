// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Core.hpp>

namespace knapformer {

/// The execution space and memory of everything on a device.
using Device = Kokkos::DefaultExecutionSpace;

}  // namespace knapformer
