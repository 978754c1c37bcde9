// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// print_tokens MANIFEST PATCH TEMPORAL: the tokens of every sample, one a line.

#include <cstdio>
#include <cstdlib>

#include "knapformer/train/manifest.hpp"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const knapformer::TokenRates rates{std::atof(argv[2]), std::atof(argv[3])};
  for (std::int64_t tokens : knapformer::read_manifest(argv[1], rates)) {
    std::printf("%lld\n", static_cast<long long>(tokens));
  }
}
