// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/train/data_source.hpp>
#include <memory>
#include <string>

namespace CLI {
class App;
}

namespace knapformer::cli {

/// Which samples a command works on.
struct DataOptions {
  std::string manifest;  ///< this or
  std::string data_codes;
  TokenRates rates;
  std::int64_t samples_per_rank = 8;
  std::int64_t max_text_tokens = 392;
  std::uint64_t seed = 0;
};

void add_data_options(CLI::App& command, DataOptions& options);

/// Throws Error unless there is exactly one of manifest and codes.
void require_data(const DataOptions& options);

/// The samples, dealt to `ranks`. Throws Error as make_manifest_source() and make_code_source() do.
std::unique_ptr<DataSource> open_data(const DataOptions& options, std::int64_t ranks);

}  // namespace knapformer::cli
