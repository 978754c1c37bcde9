// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/train/tuner.hpp>
#include <string>

namespace knapformer::cli {

/// What the table and the JSON file say about a comparison.
struct TuneReport {
  const std::string& data;  ///< what it is and how it is dealt
  std::uint64_t seed = 0;
  double gamma = 0;
  const TunerOptions& options;
  const TunerResult& result;
  Recommendation recommendation;
  std::string simulate;  ///< the command that trains on the same data, without a topology
};

/// For people: what was sampled, a line for each candidate, and the one to use.
std::string tune_table(const TuneReport& report);

/// For programs: the same figures.
std::string tune_json(const TuneReport& report);

}  // namespace knapformer::cli
