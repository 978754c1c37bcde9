// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans what standard input says, one request after another, with the library itself, and prints a
// line for each: the plan's hash and predicted time, or the error. Words of a request: topology,
// heads, d_model, gamma, constant, cap on tokens, cap on attention tokens, budget, ranks, the
// number of sequences of every rank, all lengths, the number of costs, the costs, the number of
// speeds, the speeds.

#include <cstdint>
#include <iomanip>
#include <iostream>
#include <knapformer/plan/error.hpp>
#include <knapformer/plan/planner.hpp>
#include <string>
#include <vector>

namespace {

template <class T>
std::vector<T> read(std::istream& in, std::int64_t count) {
  std::vector<T> values(count);
  for (T& value : values) in >> value;
  return values;
}

template <class T>
T read(std::istream& in) {
  return read<T>(in, 1).front();
}

knapformer::Plan plan_next(std::istream& in, const std::string& topology_name) {
  using std::int64_t;
  const auto heads = read<int64_t>(in), d_model = read<int64_t>(in);
  const auto gamma = read<double>(in);
  const auto constant = read<int64_t>(in), max_tokens = read<int64_t>(in);
  const auto max_attention_tokens = read<int64_t>(in), budget = read<int64_t>(in);
  std::vector<int64_t> offsets{0};
  for (int64_t count : read<int64_t>(in, read<int64_t>(in))) {
    offsets.push_back(offsets.back() + count);
  }
  const auto lengths = read<int64_t>(in, offsets.back());
  const auto costs = read<int64_t>(in, read<int64_t>(in));
  knapformer::Machine machine;
  machine.speeds = read<double>(in, read<int64_t>(in));
  const auto topology = knapformer::Topology::parse(topology_name);
  const auto cost = knapformer::CostModel::transformer(d_model, gamma, constant);
  return knapformer::make_plan({.topology = topology,
                                .cost = cost,
                                .heads = heads,
                                .lengths = lengths,
                                .offsets = offsets,
                                .costs = costs,
                                .machine = machine,
                                .max_tokens_per_rank = max_tokens,
                                .max_attention_tokens_per_rank = max_attention_tokens,
                                .budget = budget});
}

}  // namespace

int main() {
  std::cout << std::setprecision(17);
  for (std::string topology; std::cin >> topology;) {
    try {
      const knapformer::Plan plan = plan_next(std::cin, topology);
      std::cout << plan.hash() << ' ' << plan.report().step_seconds << '\n';
    } catch (const knapformer::Error& error) {
      std::cout << "error: " << error.what() << '\n';
    }
  }
}
