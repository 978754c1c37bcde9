// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// How long make_plan takes, on one core, beside std::sort of the same lengths. README.md says what
// the names and counters mean.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <knapformer/plan/planner.hpp>
#include <random>
#include <string>
#include <vector>

#include "lengths.hpp"
#include "medians.hpp"

namespace knapformer::perf {
namespace {

struct Size {
  std::int64_t ranks;
  std::int64_t per_rank;  // 0: as published
  int iterations;         // in a repetition, whose times are added up
  int repetitions;
};

struct Case {
  std::string workload;
  Size size;
  Topology topology;
  std::int64_t budget;
};

// Every iteration sorts a freshly shuffled copy, then plans: both see the same state of the
// machine.
void plan_and_sort(benchmark::State& state, const Case& of) {
  const Lengths lengths = make_lengths(of.workload, of.size.ranks, of.size.per_rank);
  const CostModel cost = CostModel::transformer(3072, 0.5);
  const PlanRequest request{.topology = of.topology,
                            .cost = cost,
                            .heads = 24,
                            .lengths = lengths.values,
                            .offsets = lengths.offsets,
                            .budget = of.budget};
  std::vector<std::int64_t> to_sort = lengths.values;
  std::mt19937_64 random(1);
  double planning = 0, sorting = 0, step_over_ideal = 0;
  for (auto _ : state) {
    std::shuffle(to_sort.begin(), to_sort.end(), random);
    sorting += seconds_of([&] { std::sort(to_sort.begin(), to_sort.end()); });
    benchmark::DoNotOptimize(to_sort.data());
    const double taken =
        seconds_of([&] { step_over_ideal = make_plan(request).report().step_over_ideal; });
    planning += taken;
    state.SetIterationTime(taken);
  }
  state.counters["ratio_to_sort"] = planning / sorting;
  state.counters["step_over_ideal"] = step_over_ideal;
  state.counters["sequences_per_second"] = benchmark::Counter(
      static_cast<double>(lengths.values.size()), benchmark::Counter::kIsIterationInvariantRate);
}

Topology topology_of(std::int64_t degree, std::int64_t ranks) {
  if (degree == 0) return Topology::elastic();
  std::string name = "g";
  name += std::to_string(degree) + 'n' + std::to_string(ranks / degree);
  return Topology::parse(name);
}

void add(const Case& of, bool set_repetitions) {
  const Size& size = of.size;
  const std::string per_rank = size.per_rank > 0 ? std::to_string(size.per_rank) : "published";
  const std::string budget = of.budget == 0 ? "0" : "default";
  const std::string name = "make_plan/" + of.workload + '/' + std::to_string(size.ranks) + 'x' +
                           per_rank + '/' + of.topology.name() + "/budget:" + budget;
  auto* added = benchmark::RegisterBenchmark(
      name.c_str(), [of](benchmark::State& state) { plan_and_sort(state, of); });
  added->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(size.iterations);
  if (set_repetitions) added->Repetitions(size.repetitions)->DisplayAggregatesOnly();
}

void add_all(bool set_repetitions) {
  const Size sizes[] = {{32, 0, 10, 9}, {32, 32, 10, 9}, {1024, 32, 2, 7}, {100000, 10, 1, 3}};
  const std::vector<std::string> fewer{"mixres", "joint"};  // as published, lowres is 32x32
  const std::vector<std::string> workloads{"lowres", "mixres", "joint", "lognormal"};
  for (const Size& size : sizes) {
    for (const std::string& workload : size.per_rank == 0 ? fewer : workloads) {
      for (const std::int64_t degree : {0, 1, 4, 8}) {
        for (const std::int64_t budget : {PlanRequest::kDefaultBudget, std::int64_t{0}}) {
          add({workload, size, topology_of(degree, size.ranks), budget}, set_repetitions);
        }
      }
    }
  }
}

}  // namespace
}  // namespace knapformer::perf

int main(int argc, char** argv) {
  return knapformer::perf::run_benchmarks(argc, argv, knapformer::perf::add_all);
}
