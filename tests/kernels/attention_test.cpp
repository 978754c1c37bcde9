// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/attention.hpp>
#include <knapformer/plan/error.hpp>
#include <limits>
#include <numeric>
#include <support/device_arrays.hpp>
#include <tuple>

#include "instruction_sets.hpp"

namespace knapformer::test {
namespace {

/// The results of attention and of its backward pass.
struct Results {
  std::vector<double> out, log_sum_exp, dq, dk, dv;
};

struct Inputs {
  std::vector<double> q, k, v, dout;
};

struct Shape {
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> heads;  // of keys
  std::int64_t d = 0;
  std::int64_t queries_per_key = 1;
};

std::vector<AttentionProblem> problems_of(const Shape& shape) {
  std::vector<AttentionProblem> problems;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < shape.lengths.size(); ++i) {
    problems.push_back({.offset = rows, .length = shape.lengths[i], .heads = shape.heads[i]});
    rows += shape.lengths[i] * shape.heads[i];
  }
  return problems;
}

std::int64_t rows_of(const Shape& shape) {
  return std::inner_product(shape.lengths.begin(), shape.lengths.end(), shape.heads.begin(),
                            std::int64_t{0});
}

/// Attention of query head `query_head` with the keys that it shares, by its definition.
void reference_head(const AttentionProblem& problem, std::int64_t head, std::int64_t query_head,
                    const Shape& shape, bool causal, const Inputs& in, Results& results) {
  const std::int64_t d = shape.d;
  const auto key_row = [&](std::int64_t token) {
    return static_cast<std::size_t>(problem.offset + token * problem.heads + head);
  };
  const auto row = [&](std::int64_t token) {
    return key_row(token) * static_cast<std::size_t>(shape.queries_per_key) +
           static_cast<std::size_t>(query_head);
  };
  const auto product = [d](const std::vector<double>& a, std::size_t i,
                           const std::vector<double>& b, std::size_t j) {
    const auto width = static_cast<std::size_t>(d);
    double sum = 0;
    for (std::size_t c = 0; c < width; ++c) sum += a[i * width + c] * b[j * width + c];
    return sum;
  };
  const auto add = [d](double factor, const std::vector<double>& from, std::size_t i,
                       std::vector<double>& to, std::size_t j) {
    const auto width = static_cast<std::size_t>(d);
    for (std::size_t c = 0; c < width; ++c) to[j * width + c] += factor * from[i * width + c];
  };
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  for (std::int64_t query = 0; query < problem.length; ++query) {
    const std::int64_t keys = causal ? query + 1 : problem.length;
    std::vector<double> p(static_cast<std::size_t>(keys));
    double maximum = -1e300, sum = 0;
    for (std::int64_t key = 0; key < keys; ++key) {
      double& score = p[static_cast<std::size_t>(key)];
      score = scale * product(in.q, row(query), in.k, key_row(key));
      maximum = std::max(maximum, score);
    }
    for (double& x : p) sum += x = std::exp(x - maximum);
    for (double& x : p) x /= sum;
    results.log_sum_exp[row(query)] = maximum + std::log(sum);
    for (std::int64_t key = 0; key < keys; ++key) {
      add(p[static_cast<std::size_t>(key)], in.v, key_row(key), results.out, row(query));
    }
    const double delta = product(results.out, row(query), in.dout, row(query));
    for (std::int64_t key = 0; key < keys; ++key) {
      const double probability = p[static_cast<std::size_t>(key)];
      const double ds =
          scale * probability * (product(in.dout, row(query), in.v, key_row(key)) - delta);
      add(probability, in.dout, row(query), results.dv, key_row(key));
      add(ds, in.q, row(query), results.dk, key_row(key));
      add(ds, in.k, key_row(key), results.dq, row(query));
    }
  }
}

Results reference(const Shape& shape, bool causal, const Inputs& in) {
  Results results;
  for (auto* values : {&results.out, &results.dq}) values->resize(in.q.size());
  for (auto* values : {&results.dk, &results.dv}) values->resize(in.k.size());
  results.log_sum_exp.resize(static_cast<std::size_t>(rows_of(shape) * shape.queries_per_key));
  for (const AttentionProblem& problem : problems_of(shape)) {
    for (std::int64_t head = 0; head < problem.heads; ++head) {
      for (std::int64_t query_head = 0; query_head < shape.queries_per_key; ++query_head) {
        reference_head(problem, head, query_head, shape, causal, in, results);
      }
    }
  }
  return results;
}

Inputs random_inputs(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::int64_t size = rows_of(shape) * shape.d;
  Inputs in;
  in.q = random_values(size * shape.queries_per_key, random);
  for (auto* values : {&in.k, &in.v}) *values = random_values(size, random);
  in.dout = random_values(size * shape.queries_per_key, random);
  return in;
}

template <class T>
std::vector<double> widened(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

template <class T>
Results computed(const Shape& shape, bool causal, std::int64_t workers, const Inputs& in) {
  const Device exec;
  const std::int64_t head_rows = rows_of(shape), d = shape.d, shared = shape.queries_per_key;
  const auto queries = [&] { return Matrix<T>("KnapFormer::test", head_rows, shared * d); };
  const auto keys = [&] { return Matrix<T>("KnapFormer::test", head_rows, d); };
  const auto q = queries(), dout = queries(), k = keys(), v = keys();
  from_host(in.q, q);
  from_host(in.k, k);
  from_host(in.v, v);
  from_host(in.dout, dout);
  const auto out = queries(), dq = queries(), dk = keys(), dv = keys();
  const Vector<T> log_sum_exp("KnapFormer::test", head_rows * shared);
  const auto work = kernels::make_attention_work(exec, problems_of(shape), causal, shared, workers);
  EXPECT_EQ(work.head_rows, head_rows);
  const Vector<T> workspace("KnapFormer::test", kernels::attention_workspace<T>(work, d));
  // Whatever was there before must not matter.
  for (const auto& view : {out, dq, dk, dv}) Kokkos::deep_copy(view, T(std::nan("")));
  Kokkos::deep_copy(workspace, T(std::nan("")));
  kernels::attention(exec, work, q, k, v, out, log_sum_exp);
  kernels::attention_backward(exec, work, q, k, v, out, log_sum_exp, dout, workspace, dq, dk, dv);
  return {widened(to_host(out)), widened(to_host(log_sum_exp)), widened(to_host(dq)),
          widened(to_host(dk)), widened(to_host(dv))};
}

void expect_equal(const Results& got, const Results& expected, double tolerance) {
  EXPECT_LE(difference(got.out, expected.out), tolerance);
  EXPECT_LE(difference(got.log_sum_exp, expected.log_sum_exp), tolerance);
  EXPECT_LE(difference(got.dq, expected.dq), tolerance);
  EXPECT_LE(difference(got.dk, expected.dk), tolerance);
  EXPECT_LE(difference(got.dv, expected.dv), tolerance);
}

void compare(const Shape& shape, double amplitude = 1) {
  Inputs in = random_inputs(shape, 5);
  for (double& x : in.q) x *= amplitude;
  for (auto* values : {&in.q, &in.k, &in.v, &in.dout}) {
    for (double& x : *values) x = static_cast<float>(x);  // the same numbers in both types
  }
  // A score is at most amplitude * sqrt(d); what it is rounded by is a relative error of
  // exp(score).
  const double float_tolerance = 1e-5 + std::numeric_limits<float>::epsilon() * amplitude *
                                            std::sqrt(static_cast<double>(shape.d));
  for (const bool causal : {false, true}) {
    const Results expected = reference(shape, causal, in);
    for (const std::int64_t workers : {1, 3, 64}) {
      SCOPED_TRACE(::testing::Message() << "causal " << causal << ", workers " << workers);
      expect_equal(computed<double>(shape, causal, workers, in), expected, 1e-12);
      expect_equal(computed<float>(shape, causal, workers, in), expected, float_tolerance);
    }
    for_each_instruction_set([&] {
      expect_equal(computed<double>(shape, causal, 1, in), expected, 1e-12);
      expect_equal(computed<float>(shape, causal, 1, in), expected, float_tolerance);
    });
  }
}

TEST(Attention, EqualsTheDefinitionOnMixedLengths) {
  compare({{0, 1, 2, 17, 100, 1000}, {2, 3, 1, 4, 2, 1}, 20});
}
TEST(Attention, EqualsTheDefinitionOnWholeTiles) { compare({{128, 256}, {2, 1}, 64}); }
TEST(Attention, TakesAnyHeadWidth) {
  for (const std::int64_t d : {1, 7, 130}) compare({{140, 5}, {1, 2}, d});
}
TEST(Attention, QueryHeadsShareKeys) {
  compare({.lengths = {0, 1, 2, 17, 250}, .heads = {2, 1, 3, 2, 1}, .d = 8, .queries_per_key = 3});
  compare({.lengths = {400, 9}, .heads = {1, 1}, .d = 5, .queries_per_key = 4});
}
TEST(Attention, StandsSharpDistributions) { compare({{300}, {2}, 16}, 300); }

/// Compares the backward pass with finite differences of the forward pass.
/// Along random directions, and in `samples` single elements.
void differentiate(const Shape& shape, std::size_t samples) {
  const Device exec;
  std::mt19937_64 random(9);
  const std::int64_t rows = rows_of(shape);
  const std::int64_t shared = shape.queries_per_key;
  const auto keys = [&] { return random_matrix<double>(rows, shape.d, random); };
  const auto queries = [&] { return random_matrix<double>(rows, shared * shape.d, random); };
  const auto q = queries(), k = keys(), v = keys(), dout = queries();
  const auto out = queries(), dq = queries(), dk = keys(), dv = keys();
  const Vector<double> log_sum_exp("KnapFormer::test", rows * shared);
  const std::vector<double> weights = to_host(dout);
  for (const bool causal : {false, true}) {
    SCOPED_TRACE(causal ? "causal" : "full");
    const auto work = kernels::make_attention_work(exec, problems_of(shape), causal, shared);
    const Vector<double> workspace("KnapFormer::test",
                                   kernels::attention_workspace<double>(work, shape.d));
    const auto loss = [&] {
      kernels::attention(exec, work, q, k, v, out, log_sum_exp);
      return dot(out, weights);
    };
    loss();
    kernels::attention_backward(exec, work, q, k, v, out, log_sum_exp, dout, workspace, dq, dk, dv);
    for (const auto& [name, variable, gradient] :
         {std::tuple("q", q, dq), std::tuple("k", k, dk), std::tuple("v", v, dv)}) {
      if (samples > 0) expect_gradient(name, variable, gradient, loss, samples);
      EXPECT_LE(slope_error(variable, to_host(gradient), loss, random), 1e-8) << name;
    }
  }
}

TEST(Attention, GradientsAreThoseOfFiniteDifferences) {
  differentiate({{0, 1, 2, 17}, {2, 3, 1, 2}, 6}, 250);
  differentiate({{0, 1, 2, 17, 1000}, {1, 1, 2, 1, 1}, 6}, 0);
  differentiate({.lengths = {0, 1, 2, 17}, .heads = {1, 2, 1, 2}, .d = 6, .queries_per_key = 3},
                150);
  differentiate(
      {.lengths = {0, 1, 2, 17, 1000}, .heads = {1, 1, 2, 1, 1}, .d = 4, .queries_per_key = 2}, 0);
}

// Registered with one thread and with two.
TEST(Attention, GivesTheSameBitsEveryTime) {
  const Shape shape{{1000, 3, 0, 400}, {1, 5, 2, 3}, 24, 2};
  const Inputs in = random_inputs(shape, 13);
  const auto once = [&] { return computed<float>(shape, true, 64, in); };
  const Results first = once();
  for (int repetition = 0; repetition < 5; ++repetition) expect_equal(once(), first, 0);
}

TEST(Attention, TakesNothing) {
  compare({{}, {}, 8});
  compare({{0, 0}, {3, 1}, 8});
}

TEST(Attention, RefusesOtherShapes) {
  const Device exec;
  const std::vector<AttentionProblem> problems = {{.length = 3, .heads = 2}};
  const auto work = kernels::make_attention_work(exec, problems, false);
  const Matrix<double> right("KnapFormer::test", 6, 4), wrong("KnapFormer::test", 5, 4);
  const Vector<double> log_sum_exp("KnapFormer::test", 6);
  EXPECT_NO_THROW(kernels::attention(exec, work, right, right, right, right, log_sum_exp));
  EXPECT_THROW(kernels::attention(exec, work, right, right, right, wrong, log_sum_exp), Error);
  const auto shared = kernels::make_attention_work(exec, problems, false, 2);
  EXPECT_THROW(kernels::attention(exec, shared, right, right, right, right, log_sum_exp), Error);
  EXPECT_THROW(kernels::make_attention_work(exec, problems, false, 0), Error);
}

}  // namespace
}  // namespace knapformer::test
