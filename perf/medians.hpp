// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <chrono>

namespace knapformer::perf {

template <class Call>
double seconds_of(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The main function of a benchmark program. Calls add(set_repetitions), which registers the
/// benchmarks, each with repetitions of its own unless the command line says how many. Prints the
/// medians alone. Returns the exit status: 1 when nothing ran.
int run_benchmarks(int argc, char** argv, void (*add)(bool set_repetitions));

}  // namespace knapformer::perf
