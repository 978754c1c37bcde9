// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Moving tokens never changes the result: see balanced_test.cpp.

#include <model/balanced_support.hpp>
#include <model/mmdit_support.hpp>

namespace knapformer::test {
namespace {

/// What a rank holds after a step, in the order of its own sequences; gradients are summed over
/// ranks.
struct Outcome {
  std::vector<std::vector<double>> results;
  std::vector<double> gradients;
  std::int64_t moved = 0;
  bool one_kind = false;  // some chunk here has only text, or only image tokens
};

Balancer balancer_of(const Communicator& group, const MMDiTConfig& config,
                     const std::string& topology, bool balance) {
  return {group,
          {.topology = Topology::parse(topology),
           .cost = CostModel::transformer(config.d_model),
           .heads = config.heads,
           .balance = balance}};
}

using Run = Outcome (*)(const Communicator& group, const MMDiTConfig& config,
                        const Routing& routing, const std::vector<std::int64_t>& lengths,
                        std::uint64_t seed);

std::uint64_t seed_of(const Communicator& group, std::uint64_t seed) {
  return seed * 1000 + static_cast<std::uint64_t>(group.rank());
}

/// The blocks alone, with the gradients of tokens and conditioning.
template <class T>
Outcome run_stack(const Communicator& group, const MMDiTConfig& config, const Routing& routing,
                  const std::vector<std::int64_t>& lengths, std::uint64_t seed) {
  const Device exec;
  MMDiTBatch<T> batch(config, lengths, seed_of(group, seed));
  const auto tokens = random_matrix<T>(batch.rows, config.d_model, batch.random);
  const auto cotangents = random_matrix<T>(batch.rows, config.d_model, batch.random);
  const auto conditioning = random_matrix<T>(std::ssize(lengths), config.d_model, batch.random);
  const std::int64_t size =
      total_size(mmdit_parameters(config)) - total_size(mmdit_ends_parameters(config));
  const Vector<T> parameters("KnapFormer::test", size);
  const Vector<Accumulate<T>> gradients("KnapFormer::test", size);
  randomize(parameters, seed);
  const StreamStack<T> stack(config, parameters, gradients);

  StreamSaved<T> saved;
  const auto [x, positions, modalities] =
      routing.route(exec, tokens, batch.input.positions, batch.input.modalities);
  const auto chunk_conditioning = routing.route_sequences(exec, conditioning);
  const auto y = routing.reverse_route(
      exec, stack.forward(exec, routing, x, chunk_conditioning, modalities, positions, saved));
  const auto d =
      stack.backward(exec, routing, routing.reverse_route_adjoint(exec, cotangents), saved);
  const auto dx = routing.route_adjoint(exec, d.x);
  const auto d_conditioning = routing.route_sequences_adjoint(exec, d.conditioning);
  group.all_reduce_sum(exec, gradients);
  exec.fence();
  Outcome outcome{.results = {doubles(y), doubles(dx), doubles(d_conditioning)},
                  .gradients = doubles(gradients)};
  const auto kinds = to_host(modalities);
  for (const LocalChunk& chunk : routing.chunks()) {
    const auto first = kinds.begin() + chunk.first_row, last = first + chunk.chunk.tokens;
    outcome.one_kind = outcome.one_kind || std::count(first, last, *first) == last - first;
  }
  return outcome;
}

/// The whole model, whose conditioning is made by parameters of its own.
template <class T>
Outcome run_model(const Communicator& group, const MMDiTConfig& config, const Routing& routing,
                  const std::vector<std::int64_t>& lengths, std::uint64_t seed) {
  const Device exec;
  const MMDiTBatch<T> batch(config, lengths, seed_of(group, seed));
  const MMDiT<T> model(config, 1);
  randomize(model.parameters(), seed);
  MMDiTSaved<T> saved;
  const auto out = doubles(model.forward(exec, routing, batch.input, saved));
  const auto d = model.backward(exec, routing, batch.d_out, saved);
  group.all_reduce_sum(exec, model.gradients());
  exec.fence();
  return {.results = {out, doubles(d.patches), doubles(d.text)},
          .gradients = doubles(model.gradients())};
}

/// Compares all topologies with the home plan.
Outcome compare(Run run, const MMDiTConfig& config, const std::vector<ParameterInfo>& layout,
                const std::vector<std::vector<std::int64_t>>& lengths, std::uint64_t seed,
                double tolerance = kBalanced<double>) {
  const Communicator group = world();
  const auto& mine = lengths[static_cast<std::size_t>(group.rank())];
  const auto step = [&](const std::string& topology, bool balance) {
    const Routing routing = balancer_of(group, config, topology, balance).prepare(mine);
    Outcome outcome = run(group, config, routing, mine, seed);
    outcome.moved = routing.plan().report().moved_tokens;
    return outcome;
  };
  const Outcome expected = step(join("g1n", group.size()), false);
  EXPECT_EQ(expected.moved, 0);
  Outcome seen;
  for (const std::string& topology : topologies(group.size())) {
    SCOPED_TRACE(topology);
    const Outcome got = step(topology, true);
    for (std::size_t i = 0; i < expected.results.size(); ++i) {
      EXPECT_LE(group_difference(group, got.results[i], expected.results[i]), tolerance) << i;
    }
    EXPECT_LE(gradient_difference(layout, got.gradients, expected.gradients), tolerance);
    seen.moved += got.moved;
    seen.one_kind = seen.one_kind || got.one_kind;
  }
  return seen;
}

std::vector<ParameterInfo> stack_layout(const MMDiTConfig& config) {
  const auto all = mmdit_parameters(config);
  return placed({all.begin() + std::ssize(mmdit_ends_parameters(config)), all.end()});
}

class MMDiTBalanced : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Checkpoint, MMDiTBalanced, ::testing::Bool());

TEST_P(MMDiTBalanced, EqualsUnbalanced) {
  std::int64_t moved = 0;
  bool one_kind = false;
  for (const std::uint64_t seed : {1, 2}) {
    for (const std::int64_t heads : {4, 5}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", heads " << heads);
      MMDiTConfig config = small_mmdit(heads);
      config.checkpoint = GetParam();
      std::mt19937_64 random(seed);
      const auto lengths = draw_lengths(world().size(), random);
      const Outcome seen = compare(run_stack<double>, config, stack_layout(config), lengths, seed);
      moved += seen.moved;
      one_kind = one_kind || seen.one_kind;
      compare(run_model<double>, config, mmdit_parameters(config), lengths, seed);
    }
  }
  if (world().size() == 1) return;
  const std::int32_t mine[] = {one_kind ? 1 : 0};
  const auto kinds = world().all_gather(std::span<const std::int32_t>(mine));
  EXPECT_NE(std::count(kinds.begin(), kinds.end(), 1), 0) << "no chunk had tokens of one kind";
  EXPECT_GT(moved, 0) << "nothing was tested";
}

TEST_P(MMDiTBalanced, EqualsUnbalancedInBfloat16) {
  MMDiTConfig config = small_mmdit(5);
  config.checkpoint = GetParam();
  std::mt19937_64 random(7);
  const auto lengths = draw_lengths(world().size(), random);
  constexpr double kTolerance = kBalanced<bfloat16>;
  compare(run_stack<bfloat16>, config, stack_layout(config), lengths, 7, kTolerance);
  compare(run_model<bfloat16>, config, mmdit_parameters(config), lengths, 7, kTolerance);
}

TEST(MMDiTBalancedAtTheEdge, OneSequenceForAllAndNothingAtAll) {
  const MMDiTConfig config = small_mmdit(4);
  std::vector<std::vector<std::int64_t>> lengths(static_cast<std::size_t>(world().size()));
  compare(run_stack<double>, config, stack_layout(config), lengths, 3);
  compare(run_model<double>, config, mmdit_parameters(config), lengths, 3);
  for (const std::int64_t length : {0, 1, 40}) {
    lengths.back() = {length};
    compare(run_stack<double>, config, stack_layout(config), lengths, 4);
    compare(run_model<double>, config, mmdit_parameters(config), lengths, 4);
  }
}

}  // namespace
}  // namespace knapformer::test
