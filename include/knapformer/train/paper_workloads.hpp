// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <cstdint>
#include <knapformer/train/data_source.hpp>
#include <memory>
#include <string_view>

namespace knapformer {

/// A workload of the experiments of arXiv 2508.06001.
struct PaperWorkload {
  std::string_view name;   ///< for options
  std::string_view title;  ///< for people
  std::string_view codes;  ///< data codes of kPaperRanks ranks
};

/// GPUs of those experiments.
inline constexpr std::int64_t kPaperRanks = 32;

/// Images of low resolution; of mixed resolutions; images and videos.
inline constexpr std::array<PaperWorkload, 3> kPaperWorkloads = {{
    {"lowres", "images of low resolution", "g32b32i256f1s0"},
    {"mixres", "images of mixed resolutions",
     "g16b4i256f1s0,g4b5i512f1s0,g4b5i1024f1s0,g8b1i2048f1s0"},
    {"joint", "images and videos",
     "g8b4i256f1s0,g2b5i512f1s0,g2b5i1024f1s0,g4b1i2048f1s0,g1b10i256f4s0,g3b1i512f4s0,"
     "g8b2i256f85s1,g4b1i512f85s1"},
}};

/// The sequences of a workload, each `scale` times as long, rounded, and at least one token: what
/// kPaperRanks ranks load, dealt to fewer `ranks` in blocks of neighbours that differ by at most
/// one rank, or as often as they fit. The same seed draws the same sequences for any number of
/// ranks up to kPaperRanks and for any scale. Throws Error for more ranks that are no multiple of
/// kPaperRanks, and unless `scale` is in (0, 1].
std::unique_ptr<DataSource> make_paper_source(const PaperWorkload& workload, std::int64_t ranks,
                                              std::uint64_t seed, double scale);

}  // namespace knapformer
