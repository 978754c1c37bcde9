// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Whichever allocation fails: the planner says so, and no exception reaches its caller in C.

#include <gtest/gtest.h>
#include <knapformer/knapformer_plan.h>

#include <array>

#include "failing_new.hpp"

namespace knapformer::test {
namespace {

TEST(CPlanMemory, EveryAllocationMayFail) {
  constexpr std::array<std::int64_t, 3> kOffsets{0, 4, 5};
  constexpr std::array<std::int64_t, 5> kLengths{100, 0, 30, 7, 1000};
  knapformer_plan_options options;
  knapformer_plan_options_init(&options);
  options.heads = 4;
  int failed = 0;
  for (;; ++failed) {
    ASSERT_LT(failed, 100000);
    knapformer_plan* plan = nullptr;
    fail_new(failed);
    const int status =
        knapformer_plan_make(&options, 2, kOffsets.data(), kLengths.data(), nullptr, &plan);
    const bool out_of_memory = new_has_failed();
    fail_new(-1);
    ASSERT_EQ(out_of_memory, status == KNAPFORMER_OUT_OF_MEMORY) << failed;
    ASSERT_EQ(out_of_memory, plan == nullptr) << failed;
    knapformer_plan_destroy(&plan);
    if (!out_of_memory) break;
    ASSERT_STREQ(knapformer_error_message(), "out of memory");
  }
  EXPECT_GT(failed, 10);
}

TEST(CPlanMemory, AnErrorThatCannotBeDescribed) {
  for (int n = 0; n < 3; ++n) {
    knapformer_plan* plan = nullptr;
    fail_new(n);
    const int status = knapformer_plan_make(nullptr, -1, nullptr, nullptr, nullptr, &plan);
    fail_new(-1);
    EXPECT_TRUE(status == KNAPFORMER_OUT_OF_MEMORY || status == KNAPFORMER_INVALID) << status;
  }
}

}  // namespace
}  // namespace knapformer::test
