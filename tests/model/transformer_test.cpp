// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <model/model_support.hpp>
#include <set>

namespace knapformer::test {
namespace {

TransformerConfig small_config() {
  return {.layers = 3, .d_model = 12, .heads = 3, .d_ffn = 10, .rms_eps = 1e-3, .rope_base = 50};
}

/// A batch on one rank, and what a forward and backward pass make of it.
struct Batch {
  explicit Batch(std::vector<std::int64_t> sequence_lengths, std::uint64_t seed = 1,
                 std::int64_t plan_heads = small_config().heads)
      : lengths(std::move(sequence_lengths)),
        routing(home_routing(lengths, plan_heads)),
        random(seed),
        x(random_matrix<double>(routing.routed_rows(), 12, random)),
        dy(random_matrix<double>(routing.routed_rows(), 12, random)),
        positions(token_positions(lengths)) {}

  std::vector<std::int64_t> lengths;
  Routing routing;
  std::mt19937_64 random;
  Matrix<double> x, dy;
  Positions positions;
  Device exec{};
};

class Gradients : public ::testing::TestWithParam<std::pair<bool, bool>> {};
INSTANTIATE_TEST_SUITE_P(CausalCheckpoint, Gradients,
                         ::testing::Values(std::pair(false, false), std::pair(false, true),
                                           std::pair(true, false), std::pair(true, true)));

TEST_P(Gradients, AreThoseOfTheOutput) {
  TransformerConfig config = small_config();
  std::tie(config.causal, config.checkpoint) = GetParam();
  const Batch batch({4, 0, 1, 6});
  const Transformer<double> model(config, 1);
  randomize_parameters(model, 2);
  Saved<double> saved;
  const auto weights = to_host(batch.dy);
  const auto forward = [&] {
    return model.forward(batch.exec, batch.routing, batch.x, batch.positions, saved);
  };
  forward();
  const auto dx = to_host(model.backward(batch.exec, batch.routing, batch.dy, saved));
  const Matrix<double> kept("KnapFormer::test", batch.x.extent(0), batch.x.extent(1));
  from_host(dx, kept);
  const auto loss = [&] { return dot(forward(), weights); };
  expect_gradient("x", batch.x, kept, loss, 40);
  for (std::int64_t block = 0; block < config.layers; ++block) {
    for (const ParameterInfo& info : block_parameters(config)) {
      expect_gradient(info.name, model.parameter(block, info.name),
                      model.gradient(block, info.name), loss, 8);
    }
  }
}

enum class Parameters { kOneByOne, kTogether };

/// Slopes along random directions, of x and of the parameters.
void differentiate(const TransformerConfig& config, const std::vector<std::int64_t>& lengths,
                   Parameters parameters) {
  const Batch batch(lengths, 1, config.plan_heads());
  const Transformer<double> model(config, 1);
  randomize_parameters(model, 2);
  Saved<double> saved;
  const auto weights = to_host(batch.dy);
  const auto loss = [&] {
    return dot(model.forward(batch.exec, batch.routing, batch.x, batch.positions, saved), weights);
  };
  loss();
  const auto dx = to_host(model.backward(batch.exec, batch.routing, batch.dy, saved));
  std::mt19937_64 random(7);
  EXPECT_LE(slope_error(batch.x, dx, loss, random), 1e-8);
  if (parameters == Parameters::kTogether) {
    const auto gradients = to_host(model.gradients());
    EXPECT_LE(slope_error(model.parameters(), gradients, loss, random), 1e-7);
    return;
  }
  for (const ParameterInfo& info : block_parameters(config)) {
    const auto gradient = to_host(model.gradient(1, info.name));
    EXPECT_LE(slope_error(model.parameter(1, info.name), gradient, loss, random), 1e-7)
        << info.name;
  }
}

TEST_P(Gradients, OfLongAndShortSequences) {
  TransformerConfig config = small_config();
  std::tie(config.causal, config.checkpoint) = GetParam();
  for (const std::int64_t kv_heads : {0, 1}) {
    config.kv_heads = kv_heads;
    SCOPED_TRACE(kv_heads);
    differentiate(config, {17, 0, 1000, 1, 2}, Parameters::kTogether);
  }
}

TEST_P(Gradients, WithSharedKeys) {
  TransformerConfig config = small_config();
  std::tie(config.causal, config.checkpoint) = GetParam();
  config.heads = 6;
  for (const std::int64_t kv_heads : {1, 2, 3}) {
    config.kv_heads = kv_heads;
    SCOPED_TRACE(kv_heads);
    differentiate(config, {4, 0, 1, 2, 17}, Parameters::kOneByOne);
  }
}

/// The rows of qkv_proj for keys and values in `narrow`, once for each query head that shares them.
std::vector<double> with_repeated_keys(const TransformerConfig& config,
                                       const std::vector<double>& narrow) {
  const auto part = std::ssize(narrow) / config.d_qkv() * config.d_head();  // a head
  std::vector<double> wide(narrow.begin(), narrow.begin() + config.heads * part);
  for (std::int64_t kv = 0; kv < 2 * config.kv_heads; ++kv) {
    const auto from = narrow.begin() + (config.heads + kv) * part;
    for (std::int64_t i = 0; i < config.queries_per_key(); ++i) {
      wide.insert(wide.end(), from, from + part);
    }
  }
  return wide;
}

/// The transpose of with_repeated_keys().
std::vector<double> with_keys_summed(const TransformerConfig& config,
                                     const std::vector<double>& wide) {
  const auto part = std::ssize(wide) / (3 * config.d_model) * config.d_head();
  std::vector<double> narrow(wide.begin(), wide.begin() + config.heads * part);
  narrow.resize(static_cast<std::size_t>((config.heads + 2 * config.kv_heads) * part));
  for (std::int64_t head = 0; head < 2 * config.heads; ++head) {
    const std::int64_t to = config.heads + head / config.queries_per_key();
    for (std::int64_t i = 0; i < part; ++i) {
      narrow[static_cast<std::size_t>(to * part + i)] +=
          wide[static_cast<std::size_t>((config.heads + head) * part + i)];
    }
  }
  return narrow;
}

TEST(Transformer, SharedKeysAreRepeatedKeys) {
  TransformerConfig config = small_config(), repeated = small_config();
  config.heads = repeated.heads = 6;
  config.kv_heads = 2;
  const std::vector<std::int64_t> lengths = {17, 0, 2, 300, 1};
  const Batch batch(lengths, 1, 2), wide_batch(lengths, 1, 6);
  const Transformer<double> model(config, 1), wide(repeated, 1);
  randomize_parameters(model, 2);
  const auto is_qkv = [](const ParameterInfo& info) {
    return info.name.find("qkv_proj") != std::string::npos;
  };
  for (std::int64_t block = 0; block < config.layers; ++block) {
    for (const ParameterInfo& info : block_parameters(config)) {
      const auto values = to_host(model.parameter(block, info.name));
      from_host(is_qkv(info) ? with_repeated_keys(config, values) : values,
                wide.parameter(block, info.name));
    }
  }
  Saved<double> saved, wide_saved;
  const auto y = to_host(model.forward(batch.exec, batch.routing, batch.x, batch.positions, saved));
  EXPECT_LE(difference(y, to_host(wide.forward(batch.exec, wide_batch.routing, batch.x,
                                               batch.positions, wide_saved))),
            1e-13);
  const auto dx = to_host(model.backward(batch.exec, batch.routing, batch.dy, saved));
  EXPECT_LE(
      difference(dx, to_host(wide.backward(batch.exec, wide_batch.routing, batch.dy, wide_saved))),
      1e-12);
  for (std::int64_t block = 0; block < config.layers; ++block) {
    for (const ParameterInfo& info : block_parameters(config)) {
      const auto gradient = to_host(wide.gradient(block, info.name));
      EXPECT_LE(difference(to_host(model.gradient(block, info.name)),
                           is_qkv(info) ? with_keys_summed(config, gradient) : gradient),
                1e-12)
          << info.name;
    }
  }
}

TEST(Transformer, AsManyKeysAsHeadsAreAsWithout) {
  const Batch batch({17, 0, 2});
  std::vector<std::vector<double>> outcomes[2];
  for (const std::int64_t kv_heads : {0, 3}) {
    TransformerConfig config = small_config();
    config.kv_heads = kv_heads;
    const Transformer<double> model(config, 1);
    Saved<double> saved;
    auto& outcome = outcomes[kv_heads == 0 ? 0 : 1];
    outcome.push_back(
        to_host(model.forward(batch.exec, batch.routing, batch.x, batch.positions, saved)));
    outcome.push_back(to_host(model.backward(batch.exec, batch.routing, batch.dy, saved)));
    outcome.push_back(to_host(model.gradients()));
  }
  EXPECT_EQ(outcomes[0], outcomes[1]);
}

TEST(Transformer, CheckpointingChangesNothing) {
  const Batch batch({5, 3});
  std::vector<std::vector<double>> outputs, gradients;
  for (const bool checkpoint : {false, true}) {
    TransformerConfig config = small_config();
    config.checkpoint = checkpoint;
    const Transformer<double> model(config, 1);
    Saved<double> saved;
    outputs.push_back(
        to_host(model.forward(batch.exec, batch.routing, batch.x, batch.positions, saved)));
    outputs.push_back(to_host(model.backward(batch.exec, batch.routing, batch.dy, saved)));
    gradients.push_back(to_host(model.gradients()));
  }
  EXPECT_EQ(outputs[0], outputs[2]);
  EXPECT_EQ(outputs[1], outputs[3]);
  EXPECT_EQ(gradients[0], gradients[1]);
}

TEST(Transformer, SeveralBatchesMayBeInFlight) {
  const Batch first({5, 3}, 1), second({0, 9}, 2), none({}, 3);
  const Transformer<double> model(small_config(), 1);
  const auto backward = [&](const Batch& batch, Saved<double>& saved) {
    return to_host(model.backward(batch.exec, batch.routing, batch.dy, saved));
  };
  const auto forward = [&](const Batch& batch, Saved<double>& saved) {
    return to_host(model.forward(batch.exec, batch.routing, batch.x, batch.positions, saved));
  };
  Saved<double> alone;  // used again and again, for batches of different size
  std::vector<std::vector<double>> expected, got;
  for (const Batch* batch : {&second, &none, &first}) {
    expected.push_back(forward(*batch, alone));
    expected.push_back(backward(*batch, alone));
  }
  const auto expected_gradients = to_host(model.gradients());
  Kokkos::deep_copy(model.gradients(), 0.0);

  Saved<double> a, b, c;
  const auto y_first = forward(first, a), y_second = forward(second, b), y_none = forward(none, c);
  got = {y_second, backward(second, b), y_none, backward(none, c), y_first, backward(first, a)};
  EXPECT_EQ(got, expected);
  EXPECT_EQ(to_host(model.gradients()), expected_gradients);
}

TEST(Transformer, TheObserverSeesEveryExchange) {
  const Batch batch({4});
  TransformerConfig config = small_config();
  const Transformer<double> model(config, 1);
  Saved<double> saved;
  int begun = 0, ended = 0;
  const ExchangeObserver observer = [&](bool begins) {
    ++(begins ? begun : ended);
    EXPECT_EQ(begun - ended, begins ? 1 : 0);
  };
  model.forward(batch.exec, batch.routing, batch.x, batch.positions, saved, observer);
  EXPECT_EQ(begun, 3 * 3) << "one of two exchanges is started before it is waited for";
  model.backward(batch.exec, batch.routing, batch.dy, saved, observer);
  EXPECT_EQ(begun, 3 * 3 + 3 * 3 + 2 * 3) << "two of three blocks are computed again";
}

TEST(Transformer, ParametersAreDrawnAlikeEverywhere) {
  const TransformerConfig config{.layers = 2, .d_model = 64, .heads = 2, .d_ffn = 96};
  const Transformer<double> model(config, 5), same(config, 5), other(config, 6);
  EXPECT_EQ(to_host(model.parameters()), to_host(same.parameters()));
  EXPECT_NE(to_host(model.parameters()), to_host(other.parameters()));
  const auto narrow = to_host(Transformer<float>(config, 5).parameters());
  const auto wide = to_host(model.parameters());
  for (std::size_t i = 0; i < wide.size(); ++i) EXPECT_EQ(narrow[i], static_cast<float>(wide[i]));

  std::set<double> weights;
  std::size_t count = 0;
  double sum = 0, squares = 0;
  for (const std::int64_t block : {0, 1}) {
    for (const ParameterInfo& info : block_parameters(config)) {
      for (const double value : to_host(model.parameter(block, info.name))) {
        if (info.columns == 1) {
          EXPECT_EQ(value, info.name.ends_with("bias") ? 0 : 1) << info.name;
          continue;
        }
        weights.insert(value);
        ++count;
        sum += value;
        squares += value * value;
      }
    }
  }
  const auto n = static_cast<double>(count);
  EXPECT_GT(weights.size(), count / 2) << "no two parameters draw the same numbers";
  EXPECT_NEAR(sum / n, 0, 5 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 0.02 * 5 / std::sqrt(n));
}

TEST(Transformer, CountsItsFlops) {
  const Batch batch({4, 6});
  TransformerConfig config = small_config();
  config.checkpoint = false;
  const double products = 3 * 2 * 10 * (12 * 36 + 12 * 12 + 3 * 12 * 10);
  const double attention = 3 * 4 * (16 + 36) * 12;
  EXPECT_EQ(Transformer<double>(config, 1).forward_flops(batch.routing), products + attention);
  EXPECT_EQ(Transformer<double>(config, 1).backward_flops(batch.routing),
            2 * products + 2.5 * attention);
  config.checkpoint = true;  // two of three blocks once more, without their last product
  const double recomputed = 2 * (2 * 10 * (12 * 36 + 12 * 12 + 2 * 12 * 10)) + attention * 2 / 3;
  EXPECT_DOUBLE_EQ(Transformer<double>(config, 1).backward_flops(batch.routing),
                   2 * products + 2.5 * attention + recomputed);
  config.causal = true;
  EXPECT_EQ(Transformer<double>(config, 1).forward_flops(batch.routing), products + attention / 2);
  config.kv_heads = 1;  // as much attention, with k and v of one head in three
  EXPECT_EQ(Transformer<double>(config, 1).forward_flops(Batch({4, 6}, 1, 1).routing),
            products - 3 * 2 * 10 * 12 * 16 + attention / 2);
}

TEST(Transformer, RefusesWhatItCannotBe) {
  const auto refuses = [](auto change) {
    TransformerConfig config = small_config();
    change(config);
    EXPECT_THROW(check(config), Error);
    EXPECT_THROW(Transformer<float>(config, 1), Error);
  };
  EXPECT_NO_THROW(check(small_config()));
  refuses([](auto& c) { c.layers = -1; });
  refuses([](auto& c) { c.heads = 0; });
  refuses([](auto& c) { c.heads = 5; });
  refuses([](auto& c) { c.heads = 4; });  // heads of width 3
  refuses([](auto& c) { c.kv_heads = -1; });
  refuses([](auto& c) { c.kv_heads = 2; });
  refuses([](auto& c) { c.kv_heads = 6; });
  refuses([](auto& c) { c.d_model = 0; });
  refuses([](auto& c) { c.d_ffn = -7; });
  refuses([](auto& c) { c.rms_eps = -1; });
  refuses([](auto& c) { c.rope_base = 0; });
}

TEST(Transformer, RefusesOtherShapes) {
  const Batch batch({4, 2}), longer({4, 3}), swapped({2, 4});
  const Transformer<double> model(small_config(), 1);
  Saved<double> saved;
  const auto forward = [&](const Matrix<double>& x, const Positions& positions) {
    // A routing of its own: one that has failed is of no further use.
    model.forward(batch.exec, home_routing(batch.lengths, 3), x, positions, saved);
  };
  EXPECT_THROW(forward(longer.x, batch.positions), Error);
  EXPECT_THROW(forward(batch.x, longer.positions), Error);
  EXPECT_THROW(
      model.forward(batch.exec, home_routing(batch.lengths, 4), batch.x, batch.positions, saved),
      Error);
  EXPECT_THROW(model.backward(batch.exec, home_routing(batch.lengths, 3), batch.dy, saved), Error)
      << "without a forward pass";
  EXPECT_NO_THROW(forward(batch.x, batch.positions));
  EXPECT_THROW(model.backward(batch.exec, home_routing(longer.lengths, 3), longer.dy, saved),
               Error);
  EXPECT_THROW(model.backward(batch.exec, home_routing(swapped.lengths, 3), batch.dy, saved), Error)
      << "as many tokens, in other sequences";
  TransformerConfig shared = small_config();
  shared.kv_heads = 1;
  EXPECT_THROW(Transformer<double>(shared, 1).forward(batch.exec, home_routing(batch.lengths, 3),
                                                      batch.x, batch.positions, saved),
               Error)
      << "a plan for the heads of queries";
  EXPECT_THROW(model.parameter(0, "attn/none"), Error);
  EXPECT_THROW(model.gradient(3, "attn_norm/weight"), Error);
}

std::set<std::string>& seen_labels() {
  static std::set<std::string> labels;
  return labels;
}

TEST(Transformer, EveryKernelCarriesThePrefix) {
  namespace Tools = Kokkos::Tools::Experimental;
  const Batch batch({4, 6});
  const Transformer<double> model(small_config(), 1);
  Saved<double> saved;
  const auto record = [](const char* label, std::uint32_t, std::uint64_t*) {
    seen_labels().insert(label);
  };
  Tools::set_begin_parallel_for_callback(record);
  Tools::set_begin_parallel_reduce_callback(record);
  model.forward(batch.exec, batch.routing, batch.x, batch.positions, saved);
  model.backward(batch.exec, batch.routing, batch.dy, saved);
  Tools::set_begin_parallel_for_callback(nullptr);
  Tools::set_begin_parallel_reduce_callback(nullptr);
  EXPECT_TRUE(seen_labels().contains("KnapFormer::attention_backward"));
  for (const std::string& label : seen_labels()) {
    EXPECT_TRUE(label.starts_with("KnapFormer::") || label.starts_with("Kokkos::")) << label;
  }
}

}  // namespace
}  // namespace knapformer::test
