// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "medians.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

namespace knapformer::perf {
namespace {

// Of the statistics of repetitions, the median alone.
class MedianReporter : public benchmark::ConsoleReporter {
 public:
  MedianReporter() : ConsoleReporter(OO_None) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> shown;
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Aggregate || run.aggregate_name == "median") shown.push_back(run);
    }
    ConsoleReporter::ReportRuns(shown);
  }
};

bool given(std::span<char*> arguments, std::string_view option) {
  return std::ranges::any_of(
      arguments, [&](std::string_view argument) { return argument.starts_with(option); });
}

}  // namespace

int run_benchmarks(int argc, char** argv, void (*add)(bool set_repetitions)) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  const bool set_repetitions = !given(arguments, "--benchmark_repetitions");
  const bool set_format = given(arguments, "--benchmark_format");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  add(set_repetitions);
  MedianReporter medians;
  const std::size_t ran = set_format ? benchmark::RunSpecifiedBenchmarks()
                                     : benchmark::RunSpecifiedBenchmarks(&medians);
  return ran > 0 ? 0 : 1;
}

}  // namespace knapformer::perf
