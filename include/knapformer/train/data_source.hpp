// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <filesystem>
#include <knapformer/train/manifest.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace knapformer {

/// Where sequence lengths come from. The same on every rank, compiler and CPU, and any rank may ask
/// for the lengths of any other. One source serves one thread at a time.
class DataSource {
 public:
  virtual ~DataSource() = default;

  /// Tokens of each sample that `rank` loads in `step`, counted from 0, in loading order. Any step
  /// may be asked for. Throws Error for a negative step, or a rank outside the ranks dealt to.
  virtual std::vector<std::int64_t> lengths(std::int64_t step, std::int64_t rank) const = 0;

  /// One line for people and traces: what the data is and how it is dealt.
  virtual std::string describe() const = 0;
};

/// How the samples of a manifest reach ranks.
struct Dealing {
  std::int64_t ranks = 1;             ///< that load samples
  std::int64_t samples_per_rank = 1;  ///< of every rank in every step
  std::uint64_t seed = 0;             ///< of the shuffling
};

/// The samples of a manifest, shuffled anew for every pass over it and dealt without gaps: rank r
/// of step s gets samples_per_rank samples, after those of rank r-1. A step may begin one pass and
/// end in the next. Throws Error as read_manifest() does, and for a dealing without ranks or
/// samples.
std::unique_ptr<DataSource> make_manifest_source(const std::filesystem::path& file,
                                                 const TokenRates& rates, const Dealing& dealing);

/// Random lengths after data codes (arXiv 2508.06001), such as `g8b4i256f1s0,g4b5i512f1s0`: g ranks
/// load b samples each, of i x i pixels and f frames, with temporal compression (s1) or without
/// (s0). A sample has floor(i / patch)^2 * frames visual tokens, where compression leaves max(1,
/// floor(f / temporal)) frames, times a factor in [0.96, 1.04] drawn for each rank and step, plus 0
/// to `max_text_tokens` drawn for each sample. The ranks follow the codes in their order, as often
/// as they fit. Throws Error naming the offending term, and when `ranks` is not a multiple of the
/// ranks in the codes.
std::unique_ptr<DataSource> make_code_source(std::string_view codes, const TokenRates& rates,
                                             std::int64_t ranks, std::uint64_t seed,
                                             std::int64_t max_text_tokens = 392);

/// The ranks that data codes are for: the sum of their g's. Throws Error as make_code_source()
/// does.
std::int64_t ranks_of_codes(std::string_view codes, const TokenRates& rates = {});

}  // namespace knapformer
