// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <knapformer/train/trainer.hpp>
#include <vector>

#include "support/mpi_test.hpp"

namespace knapformer {
namespace {

using namespace test;  // NOLINT: a test file

using Lengths = std::vector<std::int64_t>;

constexpr std::int64_t kParts = 3;

/// Of rank and sequence, mixed on purpose: rank 1 has nothing, rank 2 fewer sequences than parts.
Lengths lengths_of(int rank) {
  if (rank == 1) return {};
  if (rank == 2) return {31, 2};
  return {17, 1, 0, 40 + 3 * rank, 9};
}

class MicroBatches : public ::testing::TestWithParam<LossMean> {
 protected:
  Trainer<double> trainer(std::int64_t micro_batches, bool balance, std::int64_t layers = 2) const {
    BalancerOptions options{.topology = Topology::parse("elastic"),
                            .cost = CostModel::transformer(16, 1),
                            .heads = 4,
                            .balance = balance,
                            .machine = Machine::without_communication()};
    return Trainer<double>(
        world, Balancer(group, options), {.layers = layers, .d_model = 16, .heads = 4, .d_ffn = 24},
        {.seed = 5, .learning_rate = 0.1, .micro_batches = micro_batches, .loss_mean = GetParam()});
  }
  std::vector<Batch<double>> parts_of(const Batch<double>& batch) const {
    std::vector<Batch<double>> parts;
    for (std::int64_t i = 0; i < kParts; ++i) parts.push_back(micro_batch(batch, i, kParts));
    return parts;
  }
  Batch<double> batch(std::int64_t step) const {
    return make_synthetic_batch<double>(exec, lengths_of(world.rank()), 16, 7, step, world.rank());
  }
  double sum(double mine) const {
    double all = 0;
    for (const double of : world.all_gather(std::span<const double>(&mine, 1))) all += of;
    return all;
  }
  static std::vector<double> host(const Vector<double>& of) {
    const auto copy = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, of);
    return {copy.data(), copy.data() + copy.size()};
  }
  static void expect_close(const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(a[i]));
      difference = std::max(difference, std::abs(a[i] - b[i]));
    }
    EXPECT_GT(largest, 0);
    EXPECT_LT(difference, 1e-12 * largest);
  }

  const Communicator world = test::world();
  const Communicator group = world.split(world.size());
  const Device exec;
};
INSTANTIATE_TEST_SUITE_P(Means, MicroBatches,
                         ::testing::Values(LossMean::kTokens, LossMean::kSamples),
                         [](const auto& of) { return std::string(name_of(of.param)); });

TEST_P(MicroBatches, AddUpToOneBatchBalancedOrNot) {
  Trainer<double> whole = trainer(1, false);
  Trainer<double> cut[2] = {trainer(kParts, false), trainer(kParts, true)};
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch<double> all = batch(step);
    const std::vector<Batch<double>> parts = parts_of(all);
    const double loss = sum(whole.step(exec, all).loss);
    const std::vector<double> gradients = host(whole.model().gradients());
    for (const bool balanced : {false, true}) {
      SCOPED_TRACE(balanced);
      // Told of the next step twice, and once not.
      std::optional<std::span<const std::int64_t>> next;
      if (step < 1) next = parts.front().lengths;
      const StepOutcome outcome =
          cut[balanced].step(exec, std::span<const Batch<double>>(parts), next);
      EXPECT_EQ(outcome.routings.size(), 3u);
      EXPECT_NEAR(sum(outcome.loss), loss, 1e-12 * loss);
      expect_close(gradients, host(cut[balanced].model().gradients()));
      expect_close(host(whole.model().parameters()), host(cut[balanced].model().parameters()));
    }
  }
}

/// Without layers, the output is the tokens themselves.
TEST_P(MicroBatches, LossIsTheMeanAskedFor) {
  constexpr std::int64_t kD = 16;
  const Batch<double> all = batch(0);
  const std::vector<Batch<double>> parts = parts_of(all);
  const double loss =
      sum(trainer(kParts, true, 0).step(exec, std::span<const Batch<double>>(parts)).loss);
  const auto tokens = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, all.tokens);
  const auto targets = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, all.targets);
  double expected = 0, count = 0;
  std::size_t i = 0;
  for (const std::int64_t length : all.lengths) {
    double error = 0;
    for (const std::size_t end = i + static_cast<std::size_t>(length * kD); i < end; ++i) {
      error += std::pow(tokens.data()[i] - targets.data()[i], 2) / (2 * kD);
    }
    if (length == 0) continue;
    const bool by_tokens = GetParam() == LossMean::kTokens;
    expected += by_tokens ? error : error / static_cast<double>(length);
    count += by_tokens ? static_cast<double>(length) : 1;
  }
  EXPECT_NEAR(loss, sum(expected) / sum(count), 1e-13);
}

TEST_P(MicroBatches, AsManyAsTheOptionsSayOnEveryRank) {
  Trainer<double> of = trainer(kParts, true);
  const Batch<double> all = batch(0);
  std::vector<Batch<double>> parts = parts_of(all);
  const bool culprit = world.rank() == world.size() - 1;
  if (culprit) parts.pop_back();
  MPI_Barrier(MPI_COMM_WORLD);  // or the failure finds ranks that still make their trainers
  EXPECT_EQ(error_of([&] { of.step(exec, std::span<const Batch<double>>(parts)); }),
            join("rank ", world.size() - 1,
                 ": trainer: a step was given 2 micro-batches; its options say 3"));
}

TEST_P(MicroBatches, OptionsAreTheSameOnAllRanks) {
  const auto message = error_of([&] { trainer(world.rank() == 1 ? 2 : 1, true); });
  if (world.size() == 1) {
    EXPECT_EQ(message, "");
    EXPECT_EQ(error_of([&] { trainer(0, true); }), "trainer: 0 micro-batches; give at least 1");
  } else {
    EXPECT_EQ(message, join("trainer: the options differ: rank 0 has seed 5, learning rate 0.1, 1 "
                            "micro-batch, a loss over ",
                            name_of(GetParam()),
                            "; rank 1 has seed 5, learning rate 0.1, 2 micro-batches, a loss over ",
                            name_of(GetParam())));
  }
}

}  // namespace
}  // namespace knapformer
