// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/model/transformer.hpp>
#include <knapformer/route/routing.hpp>
#include <span>
#include <vector>

namespace knapformer {

/// One rank's samples of one step, packed: home rows.
template <class T>
struct Batch {
  std::vector<std::int64_t> lengths;  ///< tokens of each sequence
  Matrix<T> tokens;                   ///< [rows x d_model]
  Matrix<T> targets;                  ///< [rows x d_model]
  Positions positions;                ///< [rows x 3]: index in the sequence, 0, 0
};

/// Tokens and targets in [-1, 1) drawn by hashing (seed, step, home, element): the same on every
/// device and in every run. Double, float and bfloat16.
template <class T>
Batch<T> make_synthetic_batch(const Device& exec, std::span<const std::int64_t> lengths,
                              std::int64_t d_model, std::uint64_t seed, std::int64_t step,
                              int home);

/// A part of a batch, in its memory: its sequences in `parts` parts that differ by at most one
/// sequence, of which this is number `part`.
template <class T>
Batch<T> micro_batch(const Batch<T>& batch, std::int64_t part, std::int64_t parts);

}  // namespace knapformer
