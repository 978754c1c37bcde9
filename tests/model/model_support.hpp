// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/model/transformer.hpp>
#include <knapformer/plan/planner.hpp>
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

}  // namespace knapformer::test
