// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/stream_copy.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace knapformer {
namespace {

TEST(StreamCopy, CopiesAnyNumberOfBytesBetweenAnyAddressesAndNoneBeside) {
  std::vector<std::byte> from(1000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 % 251 + 1);
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 127, 128, 129, 200, 511, 512}) {
    for (const std::size_t first : {0, 1, 8, 16, 33, 63}) {
      for (const std::size_t place : {0, 1, 16, 31, 64, 65}) {
        std::vector<std::byte> to(1000);
        stream_copy(to.data() + place, from.data() + first, bytes);
        std::vector<std::byte> expected(1000);
        for (std::size_t i = 0; i < bytes; ++i) expected[place + i] = from[first + i];
        ASSERT_EQ(to, expected) << bytes << " bytes from " << first << " to " << place;
      }
    }
  }
}

}  // namespace
}  // namespace knapformer
