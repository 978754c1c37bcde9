// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/data_options.hpp"

#include <CLI/CLI.hpp>
#include <knapformer/plan/error.hpp>
#include <limits>

namespace knapformer::cli {

void add_data_options(CLI::App& command, DataOptions& options) {
  auto* data = command.add_option_group("Data", "exactly one of the first two");
  data->add_option("--manifest", options.manifest,
                   "CSV of samples: width,height,frames,caption_tokens")
      ->type_name("FILE");
  data->add_option(
          "--data-codes", options.data_codes,
          "random samples, e.g. g8b4i256f1s0,g2b1i512f4s0: g ranks with b samples of i x i "
          "pixels and f frames, s1 with temporal compression")
      ->type_name("CODES");
  data->add_option("--patch", options.rates.patch, "pixels along each side of a token")
      ->capture_default_str();
  data->add_option("--temporal", options.rates.temporal, "frames of a video per latent frame")
      ->capture_default_str();
  data->add_option("--samples-per-rank", options.samples_per_rank, "of a manifest, per step")
      ->capture_default_str();
  data->add_option("--max-text-tokens", options.max_text_tokens,
                   "of data codes: up to so many per sample")
      ->capture_default_str();
  data->add_option("--seed", options.seed, "of everything random")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
}

void require_data(const DataOptions& options) {
  if (options.manifest.empty() && options.data_codes.empty()) {
    throw Error("data is needed: either --manifest FILE or --data-codes CODES");
  }
  if (!options.manifest.empty() && !options.data_codes.empty()) {
    throw Error("--manifest and --data-codes are two sources of data; give one of them");
  }
}

std::unique_ptr<DataSource> open_data(const DataOptions& options, std::int64_t ranks) {
  if (!options.manifest.empty()) {
    return make_manifest_source(
        options.manifest, options.rates,
        {.ranks = ranks, .samples_per_rank = options.samples_per_rank, .seed = options.seed});
  }
  return make_code_source(options.data_codes, options.rates, ranks, options.seed,
                          options.max_text_tokens);
}

}  // namespace knapformer::cli
