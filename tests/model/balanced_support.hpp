// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

// Problems for tests in which balanced equals unbalanced, and how to compare.

#include <algorithm>
#include <knapformer/model/parameter_info.hpp>
#include <knapformer/route/balancer.hpp>
#include <model/model_support.hpp>
#include <support/mpi_test.hpp>

namespace knapformer::test {

/// How near balanced and unbalanced come to each other.
template <class T>
inline constexpr double kBalanced = sizeof(T) == 2 ? 0x1p-7 : 1e-10;

/// Every topology of the test for a number of ranks.
inline std::vector<std::string> topologies(int ranks) {
  const auto text = [](auto... parts) { return join(parts...); };
  std::vector<std::string> names = {text("g1n", ranks)};
  for (const int degree : {2, 3, 4, 7, 8}) {
    if (ranks % degree == 0) names.push_back(text("g", degree, "n", ranks / degree));
  }
  if (ranks > 2) names.push_back(text("g1n", ranks - 2, "+g2n1"));
  if (ranks == 7) names.push_back("g4n1+g1n1+g2n1");
  if (ranks == 8) names.push_back("g1n1+g3n1+g4n1");
  names.insert(names.end(), {"elastic", "elastic2"});
  return names;
}

/// The sequences of every rank, the same list on all of them. Some ranks have none.
inline std::vector<std::vector<std::int64_t>> draw_lengths(int ranks, std::mt19937_64& random) {
  std::vector<std::vector<std::int64_t>> lengths(static_cast<std::size_t>(ranks));
  for (auto& mine : lengths) {
    if (random() % 4 == 0) continue;
    for (std::uint64_t n = random() % 4; n > 0; --n) {
      mine.push_back(static_cast<std::int64_t>(random() % 5 == 0 ? random() % 150 : random() % 12));
    }
  }
  return lengths;
}

/// The largest of a number over the ranks, and of what it is measured by.
inline double group_difference(const Communicator& group, const std::vector<double>& got,
                               const std::vector<double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double mine[2] = {0, 0};
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    const double error = std::abs(got[i] - expected[i]);
    mine[0] = std::max(mine[0], std::isfinite(error) ? error : 1e300);
    mine[1] = std::max(mine[1], std::abs(expected[i]));
  }
  double error = 0, scale = 0;
  const auto all = group.all_gather(std::span<const double>(mine));
  for (std::size_t i = 0; i < all.size(); i += 2) {
    error = std::max(error, all[i]);
    scale = std::max(scale, all[i + 1]);
  }
  return error == 0 ? 0 : error / scale;
}

/// Parameter by parameter: small gradients are compared with their own size.
inline double gradient_difference(const std::vector<ParameterInfo>& layout,
                                  const std::vector<double>& got,
                                  const std::vector<double>& expected) {
  double largest = 0;
  for (const ParameterInfo& info : layout) {
    const auto part = [&](const std::vector<double>& all) {
      const auto first = all.begin() + info.offset;
      return std::vector<double>(first, first + info.size());
    };
    largest = std::max(largest, difference(part(got), part(expected)));
  }
  return largest;
}

}  // namespace knapformer::test
