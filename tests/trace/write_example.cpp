// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// write_example FILE: a trace of 5 steps of 4 ranks in 2 groups, for check_h5py.py.

#include "example.hpp"
#include "knapformer/trace/trace_writer.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const knapformer::TraceHeader header = knapformer::test::example_header(4, 2);
  knapformer::TraceWriter writer(argv[1], header);
  for (std::int64_t i = 0; i < 5; ++i) writer.append(knapformer::test::example_step(i, header));
  writer.close();
}
