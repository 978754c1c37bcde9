// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>

namespace knapformer::test {

/// Calls of operator new so far, on all threads of a program that allocation_count.cpp is part of.
/// Those of C code, such as an MPI library's, are not seen.
std::int64_t allocation_count();

}  // namespace knapformer::test
