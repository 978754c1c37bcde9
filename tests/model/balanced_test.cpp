// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Moving tokens never changes the result: output and gradients of a balanced run are those of the
// run in which every sequence stays at home.

#include <knapformer/route/balancer.hpp>
#include <model/balanced_support.hpp>

namespace knapformer::test {
namespace {

/// What a rank holds after a step, in the order of its own sequences; gradients are summed over
/// ranks.
struct Outcome {
  std::vector<double> y, dx, gradients;
  std::int64_t moved = 0;
};

template <class T>
Outcome run(const Communicator& group, const TransformerConfig& config, const std::string& topology,
            bool balance, const std::vector<std::int64_t>& lengths, std::uint64_t seed) {
  const Device exec;
  const Balancer balancer(group, {.topology = Topology::parse(topology),
                                  .cost = CostModel::transformer(config.d_model),
                                  .heads = config.plan_heads(),
                                  .balance = balance});
  const Routing routing = balancer.prepare(lengths);
  for (std::int64_t i = 0; i < routing.plan().sequences(); ++i) {
    EXPECT_LE(std::ssize(routing.plan().chunks(i)), config.plan_heads());
  }
  std::mt19937_64 random(seed * 1000 + static_cast<std::uint64_t>(group.rank()));
  const auto tokens = random_matrix<T>(routing.home_rows(), config.d_model, random);
  const auto cotangents = random_matrix<T>(routing.home_rows(), config.d_model, random);
  const Transformer<T> model(config, 1);
  randomize_parameters(model, seed);

  Saved<T> saved;
  const auto [x, positions] = routing.route(exec, tokens, token_positions(lengths));
  const auto y = routing.reverse_route(exec, model.forward(exec, routing, x, positions, saved));
  const auto dy = routing.reverse_route_adjoint(exec, cotangents);
  const auto dx = routing.route_adjoint(exec, model.backward(exec, routing, dy, saved));
  group.all_reduce_sum(exec, model.gradients());
  exec.fence();
  return {doubles(y), doubles(dx), doubles(model.gradients()),
          routing.plan().report().moved_tokens};
}

/// Compares all topologies with the home plan. Returns the tokens that moved.
template <class T = double>
std::int64_t compare(const TransformerConfig& config,
                     const std::vector<std::vector<std::int64_t>>& lengths, std::uint64_t seed) {
  const Communicator group = world();
  const auto& mine = lengths[static_cast<std::size_t>(group.rank())];
  const std::string home = join("g1n", group.size());
  const Outcome expected = run<T>(group, config, home, false, mine, seed);
  EXPECT_EQ(expected.moved, 0);
  std::vector<ParameterInfo> layout;
  for (std::int64_t l = 0; l < config.layers; ++l) {
    for (const ParameterInfo& info : block_parameters(config)) layout.push_back(info);
  }
  layout = placed(layout);
  std::int64_t moved = 0;
  for (const std::string& topology : topologies(group.size())) {
    SCOPED_TRACE(topology);
    const Outcome got = run<T>(group, config, topology, true, mine, seed);
    EXPECT_LE(group_difference(group, got.y, expected.y), kBalanced<T>);
    EXPECT_LE(group_difference(group, got.dx, expected.dx), kBalanced<T>);
    EXPECT_LE(gradient_difference(layout, got.gradients, expected.gradients), kBalanced<T>);
    moved += got.moved;
  }
  return moved;
}

TransformerConfig small_config(std::int64_t heads, std::int64_t kv_heads = 0) {
  return {.layers = 2, .d_model = 4 * heads, .heads = heads, .kv_heads = kv_heads, .d_ffn = 22};
}

class Balanced : public ::testing::TestWithParam<std::pair<bool, bool>> {};
INSTANTIATE_TEST_SUITE_P(CausalCheckpoint, Balanced,
                         ::testing::Values(std::pair(false, true), std::pair(false, false),
                                           std::pair(true, true), std::pair(true, false)));

TEST_P(Balanced, EqualsUnbalanced) {
  std::int64_t moved = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    for (const std::int64_t heads : {9, 5}) {  // no bag of several ranks but 3 splits them evenly
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", heads " << heads);
      TransformerConfig config = small_config(heads);
      std::tie(config.causal, config.checkpoint) = GetParam();
      std::mt19937_64 random(seed);
      moved += compare<double>(config, draw_lengths(world().size(), random), seed);
    }
  }
  EXPECT_TRUE(moved > 0 || world().size() == 1) << "nothing was tested";
}

TEST_P(Balanced, EqualsUnbalancedInBfloat16) {
  TransformerConfig config = small_config(5);
  std::tie(config.causal, config.checkpoint) = GetParam();
  std::mt19937_64 random(6);
  compare<bfloat16>(config, draw_lengths(world().size(), random), 6);
}

TEST_P(Balanced, EqualsUnbalancedWithSharedKeys) {
  std::int64_t moved = 0;
  for (const std::uint64_t seed : {1, 2}) {
    for (const auto& [heads, kv_heads] : {std::pair(9, 3), std::pair(10, 5), std::pair(4, 1)}) {
      SCOPED_TRACE(::testing::Message()
                   << "seed " << seed << ", " << heads << " heads, keys of " << kv_heads);
      TransformerConfig config = small_config(heads, kv_heads);
      std::tie(config.causal, config.checkpoint) = GetParam();
      std::mt19937_64 random(seed);
      moved += compare<double>(config, draw_lengths(world().size(), random), seed);
    }
  }
  EXPECT_TRUE(moved > 0 || world().size() == 1) << "nothing was tested";
}

TEST(BalancedAtTheEdge, OneSequenceForAll) {
  for (const std::int64_t length : {1, 3, 40}) {
    std::vector<std::vector<std::int64_t>> lengths(static_cast<std::size_t>(world().size()));
    lengths.back() = {length};
    compare(small_config(9), lengths, 4);
    compare(small_config(4, 2), lengths, 4);
  }
}

TEST(BalancedAtTheEdge, NothingAtAll) {
  std::vector<std::vector<std::int64_t>> lengths(static_cast<std::size_t>(world().size()));
  compare(small_config(9), lengths, 5);
  lengths[0] = {0, 0};
  compare(small_config(9), lengths, 5);
}

}  // namespace
}  // namespace knapformer::test
