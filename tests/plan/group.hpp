// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <gtest/gtest.h>

#include <knapformer/plan/error.hpp>
#include <knapformer/plan/planner.hpp>
#include <random>
#include <string>
#include <vector>

namespace knapformer::test {

using Rows = std::vector<std::vector<std::int64_t>>;

/// Lengths by rank, flattened as a request wants them.
struct Group {
  explicit Group(const Rows& rows) : offsets{0} {
    for (const auto& row : rows) {
      values.insert(values.end(), row.begin(), row.end());
      offsets.push_back(std::ssize(values));
    }
  }
  std::vector<std::int64_t> values;
  std::vector<std::int64_t> offsets;
};

inline Plan plan_of(const std::string& topology, const Rows& rows, std::int64_t heads = 24,
                    const CostModel& cost = CostModel::transformer(3072, 0.5),
                    const Rows& costs = {}, const Machine& machine = {}) {
  const Group group(rows);
  return make_plan({Topology::parse(topology), cost, heads, group.values, group.offsets,
                    Group(costs).values, machine});
}

/// The message of the Error that `call` throws; fails the test when it throws none.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

#define EXPECT_ERROR(call, part)                                                               \
  EXPECT_NE(::knapformer::test::error_of([&] { (void)(call); }).find(part), std::string::npos) \
      << ::knapformer::test::error_of([&] { (void)(call); })

inline std::int64_t draw(std::mt19937_64& random, std::int64_t lowest, std::int64_t highest) {
  return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random);
}

}  // namespace knapformer::test
