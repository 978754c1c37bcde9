// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Whole blocks of MMDiT, forward and backward, against the rate of a matrix product measured in
// turn with them, and where their time goes. README.md says what the names and counters mean.

#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>
#include <cstdio>
#include <iostream>
#include <knapformer/comm/mpi.hpp>
#include <knapformer/kernels/gemm.hpp>
#include <string>

#include "kernel_times.hpp"
#include "medians.hpp"
#include "stream_step.hpp"

namespace knapformer::perf {
namespace {

constexpr int kRepetitions = 11;

class MatrixProduct {
 public:
  double flops() const { return 2.0 * kSize * kSize * kSize; }
  void run() const {
    kernels::gemm<float>(exec_, kernels::Transpose::kNo, kernels::Transpose::kNo, 1, a_, b_, 0, c_);
    exec_.fence("KnapFormer::bench");
  }

 private:
  static constexpr std::int64_t kSize = 2048;
  Device exec_;
  Matrix<float> a_{"KnapFormer::bench", kSize, kSize};
  Matrix<float> b_{"KnapFormer::bench", kSize, kSize};
  Matrix<float> c_{"KnapFormer::bench", kSize, kSize};
};

/// Of the time of kernels and regions, the share of matrix products and of attention's kernels.
struct Shares {
  double gemm = 0, attention = 0;
};

Shares shares_of(const std::map<std::string, double>& seconds, double total) {
  Shares shares;
  for (const auto& [label, taken] : seconds) {
    if (label == "KnapFormer::gemm") shares.gemm += taken / total;
    if (label.starts_with("KnapFormer::attention")) shares.attention += taken / total;
  }
  return shares;
}

void time_block(benchmark::State& state, const StreamShape& shape) {
  const MatrixProduct roof;
  const StreamStep step(shape);
  roof.run();
  step.run();
  double roof_rate = 0, rate = 0;
  Shares shares;
  for (auto _ : state) {
    roof_rate += roof.flops() / seconds_of([&] { roof.run(); });
    const double taken = seconds_of([&] { step.run(); });
    rate += flops(shape) / taken;
    state.SetIterationTime(taken);
    const KernelTimes times;
    const double watched = seconds_of([&] { step.run(); });
    shares = shares_of(times.seconds(), watched);
  }
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["Grate"] = rate * 1e-9 / iterations;
  state.counters["Groof"] = roof_rate * 1e-9 / iterations;
  state.counters["ratio_to_gemm"] = rate / roof_rate;
  state.counters["share_gemm"] = shares.gemm;
  state.counters["share_attention"] = shares.attention;
  state.counters["share_both"] = shares.gemm + shares.attention;
}

void add_all(bool set_repetitions) {
  for (const bool double_stream : {true, false}) {
    for (const auto& [d_model, heads] : {std::pair(768, 12), std::pair(1536, 12)}) {
      for (std::int64_t tokens = 1 << 8; tokens <= 1 << 14; tokens *= 2) {
        const StreamShape shape{double_stream, tokens, tokens / 8, d_model, heads};
        const std::string name = std::string(double_stream ? "double" : "single") +
                                 "_stream/float/d_model:" + std::to_string(d_model) +
                                 "/heads:" + std::to_string(heads) +
                                 "/tokens:" + std::to_string(tokens);
        auto* added = benchmark::RegisterBenchmark(
            name.c_str(), [=](benchmark::State& state) { time_block(state, shape); });
        added->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(1);
        if (set_repetitions) added->Repetitions(kRepetitions)->DisplayAggregatesOnly();
      }
    }
  }
}

/// Seconds of one step for every line read, one a line.
void serve(const StreamShape& shape) {
  const StreamStep step(shape);
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("%.9f\n", seconds_of([&] { step.run(); }));
    std::fflush(stdout);
  }
}

/// One step's seconds by kernel and region, the longest first.
void print_profile(const StreamShape& shape) {
  const StreamStep step(shape);
  step.run();
  const KernelTimes times;
  const double total = seconds_of([&] { step.run(); });
  std::vector<std::pair<double, std::string>> rows;
  for (const auto& [label, taken] : times.seconds()) rows.emplace_back(taken, label);
  std::ranges::sort(rows, std::greater());
  double rest = total;
  for (const auto& [taken, label] : rows) {
    std::printf("%9.3f ms %6.2f %%  %s\n", taken * 1e3, taken / total * 100, label.c_str());
    rest -= taken;
  }
  std::printf("%9.3f ms %6.2f %%  elsewhere\n", rest * 1e3, rest / total * 100);
}

int run(int argc, char** argv) {
  CLI::App app(
      "Times blocks of MMDiT. Without --serve and --profile, all benchmark options of "
      "Google Benchmark apply.");
  app.allow_extras();
  StreamShape shape;
  bool serving = false, profiling = false, single = false;
  app.add_flag("--serve", serving, "time one step for every line of standard input");
  app.add_flag("--profile", profiling, "print where one step's time goes");
  app.add_flag("--single-stream", single, "that block, not the double-stream block");
  app.add_option("--tokens", shape.tokens, "of the sequence")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--text-tokens", shape.text_tokens, "of these")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--d-model", shape.d_model)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--heads", shape.heads)->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (!serving && !profiling) return run_benchmarks(argc, argv, add_all);
  if (!app.remaining().empty() || shape.text_tokens > shape.tokens) {
    std::fprintf(
        stderr, "bench_block: %s\n",
        app.remaining().empty() ? "more text tokens than tokens" : app.remaining()[0].c_str());
    return 1;
  }
  shape.double_stream = !single;
  serving ? serve(shape) : print_profile(shape);
  return 0;
}

}  // namespace
}  // namespace knapformer::perf

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 1;
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    status = knapformer::perf::run(argc, argv);
  }
  MPI_Finalize();
  return status;
}
