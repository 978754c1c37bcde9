// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <gtest/gtest.h>

namespace knapformer::testing {

/// How a test program went, the worst last, so that the maximum over ranks is that of all of them.
enum Outcome : int { kPassed, kSkipped, kFailed };

inline Outcome run_all_tests() {
  if (RUN_ALL_TESTS() != 0) return kFailed;
  return ::testing::UnitTest::GetInstance()->skipped_test_count() > 0 ? kSkipped : kPassed;
}

/// The exit status; ctest shows 77 as skipped (SKIP_RETURN_CODE).
inline int exit_status(int outcome) {
  return outcome == kFailed ? 1 : outcome == kSkipped ? 77 : 0;
}

}  // namespace knapformer::testing
