// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace knapformer {

/// How many pixels and frames become one token.
struct TokenRates {
  double patch = 16;      ///< pixels along each side of a token
  double temporal = 3.4;  ///< frames of a video per latent frame
};

/// One row of a manifest: an image (one frame) or a video.
struct Sample {
  std::int64_t width = 1;           ///< pixels
  std::int64_t height = 1;          ///< pixels
  std::int64_t frames = 1;          ///< 1 for an image
  std::int64_t caption_tokens = 0;  ///< of text beside it
};

/// floor(width / patch) * floor(height / patch) * latent frames + caption_tokens, where a video has
/// max(1, floor(frames / temporal)) latent frames and an image has one. Throws Error when that is
/// more than CostModel::kMaxLength tokens, or when a rate is not a finite number above zero.
std::int64_t sample_tokens(const Sample& sample, const TokenRates& rates = {});

/// The tokens of every sample of a CSV file with the header line
/// `width,height,frames,caption_tokens`, in the order of its rows. Integers only; width, height and
/// frames at least 1, captions at least 0. Blank lines, CRLF and a byte-order mark are ignored.
/// Throws Error naming file, line and value for anything else, and for a manifest without samples.
std::vector<std::int64_t> read_manifest(const std::filesystem::path& file,
                                        const TokenRates& rates = {});

}  // namespace knapformer
