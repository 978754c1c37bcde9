// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <chrono>
#include <knapformer/kernels/gemm.hpp>
#include <knapformer/plan/planner.hpp>
#include <knapformer/route/routing.hpp>
#include <knapformer/train/calibration.hpp>
#include <knapformer/train/synthetic.hpp>
#include <limits>
#include <vector>

namespace knapformer {

namespace {

constexpr int kRepetitions = 5;

template <class Run>
double median_seconds(const Device& exec, const Run& run) {
  std::vector<double> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    exec.fence("KnapFormer::calibration");
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRepetitions / 2, seconds.end());
  return seconds[kRepetitions / 2];
}

/// Forward and backward of one block on one rank alone.
template <class T>
double block_seconds(const Device& exec, const TransformerConfig& config,
                     const std::vector<std::int64_t>& lengths) {
  const std::vector<std::int64_t> offsets = {0, static_cast<std::int64_t>(lengths.size())};
  const Topology alone = Topology::singles(1);
  const CostModel cost = CostModel::transformer(config.d_model);
  const Routing routing(Communicator(MPI_COMM_SELF), make_home_plan({.topology = alone,
                                                                     .cost = cost,
                                                                     .heads = config.plan_heads(),
                                                                     .lengths = lengths,
                                                                     .offsets = offsets}));
  const Batch<T> batch = make_synthetic_batch<T>(exec, lengths, config.d_model, 1, 0, 0);
  const Transformer<T> model(config, 1);
  Saved<T> saved;
  const auto run = [&] {
    model.forward(exec, routing, batch.tokens, batch.positions, saved);
    model.backward(exec, routing, batch.targets, saved);
  };
  run();
  return median_seconds(exec, run);
}

template <class T>
double gemm_flops(const Device& exec) {
  constexpr std::int64_t n = 1024;
  const Matrix<T> a("KnapFormer::a", n, n), b("KnapFormer::b", n, n), c("KnapFormer::c", n, n);
  Kokkos::deep_copy(exec, a, T(1));
  Kokkos::deep_copy(exec, b, T(1));
  const auto run = [&] {
    kernels::gemm<T>(exec, kernels::Transpose::kNo, kernels::Transpose::kNo, 1, a, b, 0, c);
  };
  run();
  return 2.0 * n * n * n / median_seconds(exec, run);
}

}  // namespace

template <class T>
Calibration calibrate(const Communicator& world, const Device& exec,
                      const TransformerConfig& config, std::int64_t longest) {
  constexpr std::int64_t kShort = 64;
  const std::int64_t pieces = std::max<std::int64_t>(longest, 256) / kShort;
  const std::int64_t tokens = pieces * kShort;
  TransformerConfig block = config;
  block.layers = 1;

  world.barrier();
  const double short_seconds = block_seconds<T>(
      exec, block, std::vector<std::int64_t>(static_cast<std::size_t>(pieces), kShort));
  const double long_seconds = block_seconds<T>(exec, block, {tokens});
  // Both take a * tokens + b * sum of squares.
  const double n = static_cast<double>(tokens);
  const double quadratic = (long_seconds - short_seconds) / (n * n - n * kShort);
  const double linear = (short_seconds - quadratic * n * kShort) / n;
  // On a disturbed machine the short sequences may seem to take all of it, or the long one.
  const double gamma = linear > 0 ? 6.0 * static_cast<double>(config.d_model) * quadratic / linear
                                  : std::numeric_limits<double>::infinity();
  const double mine[2] = {gemm_flops<T>(exec), std::clamp(gamma, 0.01, 100.0)};

  const std::vector<double> all = world.all_gather(std::span<const double>(mine, 2));
  Calibration mean;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    mean.gemm_flops += all[i] / world.size();
    mean.gamma += all[i + 1] / world.size();
  }
  return mean;
}

template Calibration calibrate<double>(const Communicator&, const Device&, const TransformerConfig&,
                                       std::int64_t);
template Calibration calibrate<float>(const Communicator&, const Device&, const TransformerConfig&,
                                      std::int64_t);
template Calibration calibrate<bfloat16>(const Communicator&, const Device&,
                                         const TransformerConfig&, std::int64_t);

}  // namespace knapformer
