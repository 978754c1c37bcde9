// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <gtest/gtest.h>

#include "kernels/row_math.hpp"

namespace knapformer::test {

/// Runs body() with every instruction set that the CPU has.
template <class Body>
void for_each_instruction_set(const Body& body) {
  using kernels::host::InstructionSet;
  const InstructionSet widest = kernels::host::widest_instruction_set();
  for (const auto set :
       {InstructionSet::kBaseline, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > widest) break;
    SCOPED_TRACE(::testing::Message() << "instruction set " << static_cast<int>(set));
    kernels::host::use_instruction_set(set);
    body();
  }
  kernels::host::use_instruction_set(widest);
}

}  // namespace knapformer::test
