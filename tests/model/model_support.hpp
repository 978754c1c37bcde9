// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/model/transformer.hpp>
#include <knapformer/plan/planner.hpp>
#include <numeric>
#include <support/device_arrays.hpp>

namespace knapformer::test {

/// Everything stays on the one rank of the test.
inline Routing home_routing(const std::vector<std::int64_t>& lengths, std::int64_t heads) {
  const std::int64_t offsets[] = {0, static_cast<std::int64_t>(lengths.size())};
  const Topology topology = Topology::singles(1);
  const CostModel cost = CostModel::transformer(64);
  return Routing(Communicator(MPI_COMM_SELF), make_home_plan({.topology = topology,
                                                              .cost = cost,
                                                              .heads = heads,
                                                              .lengths = lengths,
                                                              .offsets = offsets}));
}

/// 0, 1, ... in each sequence, on the first axis.
inline Positions token_positions(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int32_t> coordinates;
  for (const std::int64_t length : lengths) {
    for (std::int64_t token = 0; token < length; ++token) {
      coordinates.insert(coordinates.end(), {static_cast<std::int32_t>(token), 0, 0});
    }
  }
  Positions positions("KnapFormer::test", coordinates.size() / 3);
  from_host(coordinates, positions);
  return positions;
}

/// Weights and biases in which every parameter matters, whatever the seed of the model.
template <class T>
void randomize(const Vector<T>& parameters, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values = random_values(static_cast<std::int64_t>(parameters.size()), random);
  for (double& value : values) value *= 0.5;
  from_host(values, parameters);
}
template <class T>
void randomize_parameters(const Transformer<T>& model, std::uint64_t seed) {
  randomize(model.parameters(), seed);
}

/// The slope of loss() along a random direction of `variable`, by differences extrapolated to the
/// step 0, less that of `gradient`; relative to the size of the gradient.
template <class View, class Loss>
double slope_error(const View& variable, const std::vector<double>& gradient, const Loss& loss,
                   std::mt19937_64& random) {
  const std::vector<double> values = to_host(variable);
  const auto direction = random_values(std::ssize(values), random);
  const auto loss_at = [&](double step) {
    std::vector<double> moved = values;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += step * direction[i];
    from_host(moved, variable);
    return loss();
  };
  constexpr double kStep = 1e-4;
  const auto wide = (loss_at(2 * kStep) - loss_at(-2 * kStep)) / (4 * kStep);
  const auto narrow = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
  from_host(values, variable);
  const double slope =
      std::inner_product(direction.begin(), direction.end(), gradient.begin(), 0.0);
  const double size =
      std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
  return std::abs(static_cast<double>((4 * narrow - wide) / 3) - slope) / (size > 0 ? size : 1);
}

}  // namespace knapformer::test
