// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

namespace knapformer {

/// Seconds elapsed, and seconds of CPU time: these do not grow while another process has the core.
struct Seconds {
  double elapsed = 0;  ///< of a steady clock
  double cpu = 0;      ///< of the process, or of a thread

  /// Adds both.
  Seconds& operator+=(const Seconds& other) {
    elapsed += other.elapsed;
    cpu += other.cpu;
    return *this;
  }
  /// Subtracts both.
  friend Seconds operator-(const Seconds& a, const Seconds& b) {
    return {a.elapsed - b.elapsed, a.cpu - b.cpu};
  }
};

/// Since some moment of the past; CPU time of all threads of the process, or of the calling one.
Seconds process_seconds();
Seconds thread_seconds();

}  // namespace knapformer
