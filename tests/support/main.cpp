// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The main of every test without MPI.

#include <support/outcome.hpp>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return knapformer::testing::exit_status(knapformer::testing::run_all_tests());
}
