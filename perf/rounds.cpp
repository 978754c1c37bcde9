// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "rounds.hpp"

#include <algorithm>
#include <cstddef>
#include <knapformer/comm/mpi.hpp>
#include <numeric>

namespace knapformer::perf {
namespace {

constexpr int kWarmUp = 2;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double seconds_here(const Contender& run) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  run();
  return MPI_Wtime() - start;
}

}  // namespace

Comparison compare(const std::vector<Contender>& contenders, int rounds, const Contender& prepare) {
  const auto count = static_cast<std::size_t>(rounds);
  std::vector<std::size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<double>> times(contenders.size());
  for (int round = -kWarmUp; round < rounds; ++round) {
    if (order.size() > 1) std::swap(order[0], order[1]);
    for (const std::size_t i : order) {
      prepare();
      const double seconds = seconds_here(contenders[i]);
      if (round >= 0) times[i].push_back(seconds);
    }
  }
  Comparison result;
  for (std::vector<double>& each : times) {
    MPI_Allreduce(MPI_IN_PLACE, each.data(), rounds, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    std::vector<double> ratios(count);
    for (std::size_t i = 0; i < count; ++i) ratios[i] = times[0][i] / each[i];
    result.seconds.push_back(median(each));
    result.ratios.push_back(median(std::move(ratios)));
  }
  return result;
}

}  // namespace knapformer::perf
