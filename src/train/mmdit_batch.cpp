// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <cmath>
#include <knapformer/train/mmdit_task.hpp>
#include <numeric>
#include <string>
#include <utility>

#include "train/synthetic_fill.hpp"

namespace knapformer {
namespace {

/// Text tokens of a sequence: at most a quarter of them.
std::int64_t text_of(std::uint64_t key, std::int64_t sequence, std::int64_t length) {
  const std::uint64_t draw =
      synthetic::mix(key ^ synthetic::mix(static_cast<std::uint64_t>(sequence)));
  return static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(length / 4 + 1));
}

/// Where the tokens of a sequence are: text at the origin, those of the image row by row.
void place(std::int64_t text, std::int64_t image, std::int64_t first,
           const Modalities::host_mirror_type& modalities,
           const Positions::host_mirror_type& positions) {
  const auto side =
      std::max<std::int64_t>(1, std::llround(std::ceil(std::sqrt(static_cast<double>(image)))));
  for (std::int64_t i = 0; i < text + image; ++i) {
    const std::int64_t patch = i - text, row = first + i;
    modalities(row) = patch < 0 ? 0 : 1;
    positions(row, 0) = 0;
    positions(row, 1) = patch < 0 ? 0 : static_cast<std::int32_t>(patch / side);
    positions(row, 2) = patch < 0 ? 0 : static_cast<std::int32_t>(patch % side);
  }
}

}  // namespace

template <class T>
MMDiTBatch<T> make_synthetic_mmdit_batch(const Device& exec, std::span<const std::int64_t> lengths,
                                         const MMDiTConfig& config, std::uint64_t seed,
                                         std::int64_t step, int home) {
  const std::uint64_t key = synthetic::key_of(seed, step, home);
  const std::uint64_t text_key = synthetic::mix(key + 1);
  MMDiTBatch<T> batch;
  batch.lengths.assign(lengths.begin(), lengths.end());
  std::int64_t rows = 0, image_rows = 0;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    const std::int64_t image =
        lengths[s] - text_of(text_key, static_cast<std::int64_t>(s), lengths[s]);
    batch.image_lengths.push_back(image);
    rows += lengths[s];
    image_rows += image;
  }
  const auto alloc = [&](const std::string& label) {
    return Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, label);
  };
  batch.input = {.patches = Matrix<T>(alloc("KnapFormer::patches"), image_rows, config.d_patch),
                 .text = Matrix<T>(alloc("KnapFormer::text"), rows - image_rows, config.d_text),
                 .modalities = Modalities(alloc("KnapFormer::modalities"), rows),
                 .positions = Positions(alloc("KnapFormer::positions"), rows),
                 .times = Vector<Accumulate<T>>(alloc("KnapFormer::times"), lengths.size())};
  batch.targets = Matrix<T>(alloc("KnapFormer::targets"), image_rows, config.d_patch);
  synthetic::fill(exec, key, batch.input.patches);
  synthetic::fill(exec, synthetic::mix(key), batch.targets);
  synthetic::fill(exec, synthetic::mix(key + 2), batch.input.text);
  synthetic::fill(exec, synthetic::mix(key + 3), batch.input.times);

  const auto modalities = Kokkos::create_mirror_view(Kokkos::HostSpace{}, batch.input.modalities);
  const auto positions = Kokkos::create_mirror_view(Kokkos::HostSpace{}, batch.input.positions);
  const auto times = Kokkos::create_mirror_view(Kokkos::HostSpace{}, batch.input.times);
  Kokkos::deep_copy(exec, times, batch.input.times);
  exec.fence("KnapFormer::synthetic");
  std::int64_t row = 0;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    place(lengths[s] - batch.image_lengths[s], batch.image_lengths[s], row, modalities, positions);
    row += lengths[s];
    times(s) = (1 + times(s)) / 2;
  }
  Kokkos::deep_copy(exec, batch.input.modalities, modalities);
  Kokkos::deep_copy(exec, batch.input.positions, positions);
  Kokkos::deep_copy(exec, batch.input.times, times);
  exec.fence("KnapFormer::synthetic");
  return batch;
}

template <class T>
MMDiTBatch<T> micro_batch(const MMDiTBatch<T>& batch, std::int64_t part, std::int64_t parts) {
  const std::int64_t count = std::ssize(batch.lengths);
  const std::pair sequences{count * part / parts, count * (part + 1) / parts};
  const auto rows_of = [&](const std::vector<std::int64_t>& lengths) {
    const auto first = lengths.begin() + sequences.first, last = lengths.begin() + sequences.second;
    const std::int64_t row = std::accumulate(lengths.begin(), first, std::int64_t{0});
    return std::pair{row, std::accumulate(first, last, row)};
  };
  const auto part_of = [&](const std::vector<std::int64_t>& lengths) {
    return std::vector<std::int64_t>(lengths.begin() + sequences.first,
                                     lengths.begin() + sequences.second);
  };
  const auto rows = rows_of(batch.lengths), image = rows_of(batch.image_lengths);
  const std::pair text{rows.first - image.first, rows.second - image.second};
  const MMDiTInput<T>& all = batch.input;
  return {part_of(batch.lengths),
          part_of(batch.image_lengths),
          {.patches = Kokkos::subview(all.patches, image, Kokkos::ALL),
           .text = Kokkos::subview(all.text, text, Kokkos::ALL),
           .modalities = Kokkos::subview(all.modalities, rows),
           .positions = Kokkos::subview(all.positions, rows, Kokkos::ALL),
           .times = Kokkos::subview(all.times, sequences)},
          Kokkos::subview(batch.targets, image, Kokkos::ALL)};
}

template MMDiTBatch<double> micro_batch(const MMDiTBatch<double>&, std::int64_t, std::int64_t);
template MMDiTBatch<float> micro_batch(const MMDiTBatch<float>&, std::int64_t, std::int64_t);
template MMDiTBatch<bfloat16> micro_batch(const MMDiTBatch<bfloat16>&, std::int64_t, std::int64_t);
template MMDiTBatch<double> make_synthetic_mmdit_batch(const Device&, std::span<const std::int64_t>,
                                                       const MMDiTConfig&, std::uint64_t,
                                                       std::int64_t, int);
template MMDiTBatch<float> make_synthetic_mmdit_batch(const Device&, std::span<const std::int64_t>,
                                                      const MMDiTConfig&, std::uint64_t,
                                                      std::int64_t, int);
template MMDiTBatch<bfloat16> make_synthetic_mmdit_batch(const Device&,
                                                         std::span<const std::int64_t>,
                                                         const MMDiTConfig&, std::uint64_t,
                                                         std::int64_t, int);

}  // namespace knapformer
