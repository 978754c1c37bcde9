// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/train/synthetic.hpp>
#include <numeric>
#include <string>
#include <utility>

#include "train/synthetic_fill.hpp"

namespace knapformer {

template <class T>
Batch<T> make_synthetic_batch(const Device& exec, std::span<const std::int64_t> lengths,
                              std::int64_t d_model, std::uint64_t seed, std::int64_t step,
                              int home) {
  std::int64_t rows = 0;
  for (const std::int64_t n : lengths) rows += n;
  const auto matrix = [&](const std::string& label) {
    return Matrix<T>(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, label), rows, d_model);
  };
  Batch<T> batch{{lengths.begin(), lengths.end()},
                 matrix("KnapFormer::tokens"),
                 matrix("KnapFormer::targets"),
                 Positions(Kokkos::view_alloc(exec, "KnapFormer::positions"), rows)};
  const std::uint64_t key = synthetic::key_of(seed, step, home);
  synthetic::fill(exec, key, batch.tokens);
  synthetic::fill(exec, synthetic::mix(key), batch.targets);

  auto positions = Kokkos::create_mirror_view(Kokkos::HostSpace{}, batch.positions);
  exec.fence("KnapFormer::synthetic");
  std::int64_t row = 0;
  for (const std::int64_t n : lengths)
    for (std::int64_t i = 0; i < n; ++i) {
      positions(row, 0) = static_cast<std::int32_t>(i);
      positions(row, 1) = positions(row, 2) = 0;
      ++row;
    }
  Kokkos::deep_copy(exec, batch.positions, positions);
  exec.fence("KnapFormer::synthetic");
  return batch;
}

template <class T>
Batch<T> micro_batch(const Batch<T>& batch, std::int64_t part, std::int64_t parts) {
  const auto begin = batch.lengths.begin();
  const std::int64_t sequences = std::ssize(batch.lengths);
  const auto first = begin + sequences * part / parts;
  const auto last = begin + sequences * (part + 1) / parts;
  const std::int64_t row = std::accumulate(begin, first, std::int64_t{0});
  const std::pair rows{row, std::accumulate(first, last, row)};
  return {{first, last},
          Kokkos::subview(batch.tokens, rows, Kokkos::ALL),
          Kokkos::subview(batch.targets, rows, Kokkos::ALL),
          Kokkos::subview(batch.positions, rows, Kokkos::ALL)};
}

template Batch<double> micro_batch(const Batch<double>&, std::int64_t, std::int64_t);
template Batch<float> micro_batch(const Batch<float>&, std::int64_t, std::int64_t);
template Batch<bfloat16> micro_batch(const Batch<bfloat16>&, std::int64_t, std::int64_t);
template Batch<double> make_synthetic_batch(const Device&, std::span<const std::int64_t>,
                                            std::int64_t, std::uint64_t, std::int64_t, int);
template Batch<float> make_synthetic_batch(const Device&, std::span<const std::int64_t>,
                                           std::int64_t, std::uint64_t, std::int64_t, int);
template Batch<bfloat16> make_synthetic_batch(const Device&, std::span<const std::int64_t>,
                                              std::int64_t, std::uint64_t, std::int64_t, int);

}  // namespace knapformer
