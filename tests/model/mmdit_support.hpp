// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

// Small MMDiTs and batches for them.

#include <algorithm>
#include <knapformer/model/mmdit.hpp>
#include <model/model_support.hpp>
#include <numeric>

namespace knapformer::test {

inline MMDiTConfig small_mmdit(std::int64_t heads) {
  MMDiTConfig config;
  config.double_blocks = 2;
  config.single_blocks = 2;
  config.d_model = 8 * heads;
  config.heads = heads;
  config.d_mlp = 22;
  config.d_patch = 5;
  config.d_text = 7;
  config.d_time = 6;
  config.rope_axes = {2, 4, 2};
  config.rope_base = 50;
  config.eps = 1e-3;
  config.time_factor = 3;
  return config;
}

/// A batch of one rank: sequences begin with text, some have nothing else, some none of it.
template <class T = double>
struct MMDiTBatch {
  MMDiTBatch(const MMDiTConfig& config, const std::vector<std::int64_t>& lengths,
             std::uint64_t seed)
      : random(seed) {
    std::vector<std::int32_t> kinds, coordinates;
    for (const std::int64_t length : lengths) {
      const auto draw = static_cast<std::int64_t>(random() % 5);
      const std::int64_t text = draw == 0 ? 0 : draw == 1 ? length : length / draw;
      text_rows += text;
      for (std::int64_t token = 0; token < length; ++token) {
        const auto t = static_cast<std::int32_t>(token - text);
        kinds.push_back(t < 0 ? 0 : 1);
        coordinates.insert(coordinates.end(),
                           {t < 0 ? t : 0, t < 0 ? 0 : t / 3, t < 0 ? 0 : t % 3});
      }
    }
    rows = std::ssize(kinds);
    input.modalities = Modalities("KnapFormer::test", rows);
    input.positions = Positions("KnapFormer::test", rows);
    from_host(kinds, input.modalities);
    from_host(coordinates, input.positions);
    input.patches = random_matrix<T>(rows - text_rows, config.d_patch, random);
    input.text = random_matrix<T>(text_rows, config.d_text, random);
    input.times = random_vector<Accumulate<T>>(std::ssize(lengths), random);
    d_out = random_matrix<T>(rows - text_rows, config.d_patch, random);
  }

  std::mt19937_64 random;
  std::int64_t rows = 0, text_rows = 0;
  MMDiTInput<T> input;
  Matrix<T> d_out;
};

}  // namespace knapformer::test
