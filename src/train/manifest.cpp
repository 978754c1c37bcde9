// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "knapformer/train/manifest.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <fstream>
#include <string>
#include <string_view>

#include "knapformer/plan/cost_model.hpp"
#include "knapformer/plan/error.hpp"
#include "train/text.hpp"
#include "train/token_rates.hpp"

namespace knapformer {
namespace {

constexpr std::string_view kHeader = "width,height,frames,caption_tokens";

struct Column {
  std::string_view name;
  std::int64_t Sample::*value;
  std::int64_t least;
};
constexpr std::array<Column, 4> kColumns = {{{"width", &Sample::width, 1},
                                             {"height", &Sample::height, 1},
                                             {"frames", &Sample::frames, 1},
                                             {"caption_tokens", &Sample::caption_tokens, 0}}};

Sample parse_row(std::string_view row) {
  Sample sample;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    const std::size_t comma = row.find(',', begin);
    if ((comma == std::string_view::npos) != (i + 1 == kColumns.size())) {
      throw Error(fmt::format("{} does not have {} columns; expected {}", in_quotes(row),
                              kColumns.size(), kHeader));
    }
    const std::string_view text = row.substr(begin, comma - begin);
    const auto& [name, member, least] = kColumns[i];
    const auto value = parse_integer(text, least, CostModel::kMaxLength);
    if (!value) {
      throw Error(fmt::format("{} {}", name, why_refused(text, least, CostModel::kMaxLength)));
    }
    sample.*member = *value;
    begin = comma + 1;
  }
  return sample;
}

/// The next line that is not blank, without its end; false at the end of the file.
bool next_line(std::ifstream& in, std::string& line, std::int64_t& number) {
  while (std::getline(in, line)) {
    ++number;
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    if (line.ends_with('\r')) line.pop_back();
    if (!trimmed(line).empty()) return true;
  }
  return false;
}

std::ifstream open_manifest(const std::filesystem::path& file) {
  std::error_code status;
  const auto kind = std::filesystem::status(file, status).type();
  if (kind == std::filesystem::file_type::not_found) {
    throw Error(fmt::format("manifest {} does not exist", file.string()));
  }
  if (kind != std::filesystem::file_type::regular) {
    throw Error(fmt::format(
        "manifest {} is {}; give a CSV file with the header {}", file.string(),
        kind == std::filesystem::file_type::directory ? "a directory" : "not a regular file",
        kHeader));
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(fmt::format("manifest {} cannot be read; check permissions", file.string()));
  return in;
}

}  // namespace

void check_rates(const TokenRates& rates) {
  const auto check = [](std::string_view name, double rate) {
    if (std::isfinite(rate) && rate > 0) return;
    throw Error(fmt::format("{} rate {}: give a finite number above 0", name, rate));
  };
  check("patch", rates.patch);
  check("temporal", rates.temporal);
}

std::int64_t sample_tokens(const Sample& sample, const TokenRates& rates) {
  check_rates(rates);
  const auto along = [&](std::int64_t pixels) {
    return std::floor(static_cast<double>(pixels) / rates.patch);
  };
  const double frames =
      sample.frames > 1
          ? std::fmax(1, std::floor(static_cast<double>(sample.frames) / rates.temporal))
          : 1;
  // Exact wherever it passes the check below: doubles hold integers up to 2^53.
  const double tokens = along(sample.width) * along(sample.height) * frames +
                        static_cast<double>(sample.caption_tokens);
  if (tokens <= static_cast<double>(CostModel::kMaxLength))
    return static_cast<std::int64_t>(tokens);
  throw Error(fmt::format(
      "{} x {} pixels, {} frames and {} caption tokens make more than {} tokens with a patch of {} "
      "and a temporal rate of {}; correct the sample or raise the rates",
      sample.width, sample.height, sample.frames, sample.caption_tokens, CostModel::kMaxLength,
      rates.patch, rates.temporal));
}

std::vector<std::int64_t> read_manifest(const std::filesystem::path& file,
                                        const TokenRates& rates) {
  check_rates(rates);
  std::ifstream in = open_manifest(file);
  std::vector<std::int64_t> tokens;
  std::string line;
  std::int64_t number = 0;
  if (!next_line(in, line, number)) {
    throw Error(
        fmt::format("manifest {} is empty; expected the header {}", file.string(), kHeader));
  }
  try {
    if (line != kHeader) {
      throw Error(fmt::format("the header is {}; expected {}", in_quotes(line), kHeader));
    }
    while (next_line(in, line, number)) tokens.push_back(sample_tokens(parse_row(line), rates));
  } catch (const Error& error) {
    throw Error(fmt::format("manifest {}, line {}: {}", file.string(), number, error.what()));
  }
  if (in.bad()) throw Error(fmt::format("manifest {}: reading fails", file.string()));
  if (tokens.empty()) {
    throw Error(fmt::format("manifest {} has a header but no samples", file.string()));
  }
  return tokens;
}

}  // namespace knapformer
