// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// usage: trace_steps FILE
//
// Reads every step of a trace, and prints how many there are and whether the file was closed: for
// test_failures.py.

#include <cstdio>
#include <exception>
#include <knapformer/trace/trace_reader.hpp>

int main(int argc, char** argv) {
  try {
    const knapformer::TraceReader trace(argc > 1 ? argv[1] : "");
    for (std::int64_t row = 0; row < trace.steps(); ++row) trace.read(row);
    std::printf("%lld %s\n", static_cast<long long>(trace.steps()),
                trace.closed() ? "closed" : "open");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
