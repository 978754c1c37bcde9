// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>

namespace knapformer {

/// Exact work: wide enough for the sum over any group. Integer units, proportional to FLOPs.
__extension__ typedef __int128 Work;

/// The cost of a sequence of L tokens: `constant + 6 d L + gamma L^2` (arXiv 2508.06001,
/// section 3.1), in units of 2^-16, so that gamma is quantised once and everything afterwards is
/// exact.
///
/// Inside a bag the term linear in L goes with a rank's tokens, the others with its heads.
class CostModel {
 public:
  /// A transformer of width `d_model`. gamma weighs attention: 1 for full attention counted in
  /// full, 0.5 where the hardware runs it twice as efficiently as counted or it is causal.
  /// `constant` is per sequence. Throws Error unless d_model is in [1, 2^20], gamma in [0, 2^10],
  /// constant in [0, 2^40].
  static CostModel transformer(std::int64_t d_model, double gamma = 0.5, std::int64_t constant = 0);

  /// Work of a whole sequence; zero for a sequence without tokens. Length in [0, kMaxLength].
  Work sequence(std::int64_t length) const;

  std::int64_t d_model() const { return d_model_; }        ///< width of the model
  Work per_sequence() const { return per_sequence_; }      ///< the constant, in units
  Work per_token() const { return per_token_; }            ///< 6 d, in units
  Work per_token_pair() const { return per_token_pair_; }  ///< gamma, in units

  /// What the exact integers count: `kUnitsPerOne` of them are one unit of the formula above.
  static constexpr std::int64_t kUnitsPerOne = std::int64_t{1} << 16;

  /// The longest sequence planned for, 2^40 tokens: a larger length is taken for an error in the
  /// data.
  static constexpr std::int64_t kMaxLength = std::int64_t{1} << 40;

 private:
  CostModel() = default;
  std::int64_t d_model_ = 1;
  Work per_sequence_ = 0;
  Work per_token_ = 0;
  Work per_token_pair_ = 0;
};

}  // namespace knapformer
