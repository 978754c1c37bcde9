// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <chrono>
#include <cstdint>

namespace knapformer::cli {

/// A line on stderr that says how far long work has come and when it may end. It appears only where
/// a person watches: when stderr is a terminal, also that of the launcher which forwards ours.
class Progress {
 public:
  /// `shown` is false on every rank but one.
  Progress(std::int64_t total, bool shown);
  ~Progress();  ///< removes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance();

 private:
  std::int64_t total_;
  std::int64_t done_ = 0;
  bool shown_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace knapformer::cli
