// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>

namespace knapformer {

/// Throws Error with MPI's own words unless `code` is MPI_SUCCESS. `function` is the MPI function's
/// name.
void check_mpi(int code, const char* function);

/// A count for MPI, which takes int. Throws Error when it does not fit.
int mpi_count(std::int64_t count, const char* function);

}  // namespace knapformer
