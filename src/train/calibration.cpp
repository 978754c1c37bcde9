// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <knapformer/kernels/gemm.hpp>
#include <knapformer/plan/planner.hpp>
#include <knapformer/route/routing.hpp>
#include <knapformer/train/calibration.hpp>
#include <knapformer/train/mmdit_task.hpp>
#include <knapformer/train/transformer_task.hpp>
#include <limits>
#include <vector>

namespace knapformer {

namespace {

constexpr int kRepetitions = 5;

template <class Run>
double median_seconds(const Device& exec, ClockKind clock, const Run& run) {
  std::vector<double> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    PhaseClock of_run(exec, {.kind = clock});
    of_run.enter(Phase::kCompute);
    run();
    of_run.stop();
    seconds.push_back(of_run.times()[Phase::kCompute]);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRepetitions / 2, seconds.end());
  return seconds[kRepetitions / 2];
}

/// With one block of each kind that the model has.
TransformerConfig one_block(TransformerConfig config) {
  config.layers = 1;
  return config;
}
MMDiTConfig one_block(MMDiTConfig config) {
  config.double_blocks = std::min<std::int64_t>(config.double_blocks, 1);
  config.single_blocks = std::min<std::int64_t>(config.single_blocks, 1);
  return config;
}

/// Forward and backward pass of a model on one rank alone.
template <class Task>
double step_seconds(const Device& exec, ClockKind clock, const typename Task::Config& config,
                    const std::vector<std::int64_t>& lengths) {
  const std::vector<std::int64_t> offsets = {0, static_cast<std::int64_t>(lengths.size())};
  const Topology alone = Topology::singles(1);
  const ModelShape shape = shape_of(config);
  const CostModel cost = CostModel::transformer(shape.d_model);
  const Routing routing(Communicator(MPI_COMM_SELF), make_home_plan({.topology = alone,
                                                                     .cost = cost,
                                                                     .heads = shape.plan_heads,
                                                                     .lengths = lengths,
                                                                     .offsets = offsets}));
  const auto batch = Task::make_batch(exec, lengths, config, 1, 0, 0);
  Task task(config, 1);
  const auto run = [&] {
    PhaseClock unused(exec, {});
    task.forward_and_backward(exec, batch, routing, LossMean::kTokens, unused);
    unused.stop();
  };
  run();
  return median_seconds(exec, clock, run);
}

template <class T>
double step_seconds(const Device& exec, ClockKind clock, const ModelConfig& config,
                    const std::vector<std::int64_t>& lengths) {
  if (const auto* model = std::get_if<MMDiTConfig>(&config)) {
    return step_seconds<MMDiTTask<T>>(exec, clock, one_block(*model), lengths);
  }
  return step_seconds<TransformerTask<T>>(exec, clock,
                                          one_block(std::get<TransformerConfig>(config)), lengths);
}

template <class T>
double gemm_flops(const Device& exec, ClockKind clock) {
  constexpr std::int64_t n = 1024;
  const Matrix<T> a("KnapFormer::a", n, n), b("KnapFormer::b", n, n), c("KnapFormer::c", n, n);
  Kokkos::deep_copy(exec, a, T(1));
  Kokkos::deep_copy(exec, b, T(1));
  const auto run = [&] {
    kernels::gemm<T>(exec, kernels::Transpose::kNo, kernels::Transpose::kNo, 1, a, b, 0, c);
  };
  run();
  return 2.0 * n * n * n / median_seconds(exec, clock, run);
}

}  // namespace

template <class T>
Calibration calibrate(const Communicator& world, const Device& exec, const ModelConfig& config,
                      std::int64_t longest, ClockKind clock) {
  constexpr std::int64_t kShort = 64;
  const std::int64_t pieces = std::max<std::int64_t>(longest, 256) / kShort;
  const std::int64_t tokens = pieces * kShort;
  world.barrier();
  const double short_seconds = step_seconds<T>(
      exec, clock, config, std::vector<std::int64_t>(static_cast<std::size_t>(pieces), kShort));
  const double long_seconds = step_seconds<T>(exec, clock, config, {tokens});
  // Both take a * tokens + b * sum of squares.
  const double n = static_cast<double>(tokens);
  const double quadratic = (long_seconds - short_seconds) / (n * n - n * kShort);
  const double linear = (short_seconds - quadratic * n * kShort) / n;
  // On a disturbed machine the short sequences may seem to take all of it, or the long one.
  const double gamma =
      linear > 0 ? 6.0 * static_cast<double>(shape_of(config).d_model) * quadratic / linear
                 : std::numeric_limits<double>::infinity();
  const double mine[2] = {gemm_flops<T>(exec, clock), std::clamp(gamma, 0.01, 100.0)};

  const std::vector<double> all = world.all_gather(std::span<const double>(mine, 2));
  Calibration mean;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    mean.gemm_flops += all[i] / world.size();
    mean.gamma += all[i + 1] / world.size();
  }
  return mean;
}

template Calibration calibrate<double>(const Communicator&, const Device&, const ModelConfig&,
                                       std::int64_t, ClockKind);
template Calibration calibrate<float>(const Communicator&, const Device&, const ModelConfig&,
                                      std::int64_t, ClockKind);
template Calibration calibrate<bfloat16>(const Communicator&, const Device&, const ModelConfig&,
                                         std::int64_t, ClockKind);

}  // namespace knapformer
