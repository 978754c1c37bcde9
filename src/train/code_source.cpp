// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "knapformer/plan/cost_model.hpp"
#include "knapformer/plan/error.hpp"
#include "knapformer/train/data_source.hpp"
#include "plan/message.hpp"
#include "train/checks.hpp"
#include "train/random.hpp"
#include "train/text.hpp"
#include "train/token_rates.hpp"

namespace knapformer {
namespace {

constexpr std::string_view kExample = "g8b4i256f1s0,g4b5i512f85s1";

/// One term of the codes.
struct Code {
  std::int64_t ranks = 0;
  std::int64_t samples = 0;
  std::int64_t resolution = 0;
  std::int64_t frames = 0;
  std::int64_t compressed = 0;
  std::int64_t visual_tokens = 0;  ///< of a sample, before the random factor
};

struct Field {
  char letter;
  std::string_view meaning;
  std::int64_t Code::*value;
  std::int64_t least;
  std::int64_t most;
};
constexpr std::array<Field, 5> kFields = {{
    {'g', "ranks", &Code::ranks, 1, std::int64_t{1} << 31},
    {'b', "samples per rank", &Code::samples, 0, kMaxSamplesPerRank},
    {'i', "resolution", &Code::resolution, 1, CostModel::kMaxLength},
    {'f', "frames", &Code::frames, 1, CostModel::kMaxLength},
    {'s', "temporal compression", &Code::compressed, 0, 1},
}};

constexpr std::int64_t kLeastFactor = 960'000;  // in millionths
constexpr std::int64_t kMostFactor = 1'040'000;
constexpr std::int64_t kMillion = 1'000'000;

Code parse_term(std::string_view term, const TokenRates& rates, std::int64_t max_text_tokens) {
  Code code;
  std::string_view rest = term;
  for (const auto& [letter, meaning, member, least, most] : kFields) {
    if (!rest.starts_with(letter)) {
      throw Error(
          "expected g<ranks>b<samples per rank>i<resolution>f<frames>s<0 or 1: temporal "
          "compression>");
    }
    const std::size_t next = std::min(rest.find_first_not_of("-.0123456789", 1), rest.size());
    const std::string_view text = rest.substr(1, next - 1);
    const auto value = parse_integer(text, least, most);
    if (!value) {
      throw Error(fmt::format("{} ({}) {}", letter, meaning, why_refused(text, least, most)));
    }
    code.*member = *value;
    rest.remove_prefix(next);
  }
  if (!rest.empty()) throw Error(fmt::format("{} follows a complete term", in_quotes(rest)));

  // Without compression every frame stays: a temporal rate of one.
  const Sample sample{code.resolution, code.resolution, code.frames, 0};
  code.visual_tokens = sample_tokens(sample, {rates.patch, code.compressed ? rates.temporal : 1.0});
  if (code.visual_tokens * kMostFactor / kMillion + max_text_tokens > CostModel::kMaxLength) {
    throw Error(fmt::format("a sample may have more than {} tokens", CostModel::kMaxLength));
  }
  return code;
}

std::vector<Code> parse_codes(std::string_view text, const TokenRates& rates,
                              std::int64_t max_text_tokens) {
  std::vector<Code> codes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view term = trimmed(text.substr(begin, end - begin));
    try {
      codes.push_back(parse_term(term, rates, max_text_tokens));
    } catch (const Error& error) {
      throw Error(fmt::format("data code {} (term {}): {}; a valid example: {}", in_quotes(term),
                              codes.size() + 1, error.what(), kExample));
    }
    begin = end + 1;
  }
  return codes;
}

std::int64_t total_ranks(const std::vector<Code>& codes) {
  std::int64_t ranks = 0;
  for (const Code& code : codes) ranks += code.ranks;
  return ranks;
}

class CodeSource : public DataSource {
 public:
  CodeSource(std::string_view text, const TokenRates& rates, std::int64_t ranks, std::uint64_t seed,
             std::int64_t max_text_tokens)
      : codes_(parse_codes(text, rates, max_text_tokens)),
        ranks_(ranks),
        seed_(seed),
        max_text_tokens_(max_text_tokens),
        description_(fmt::format("data codes {}, patch {}, temporal {}, at most {}, seed {}",
                                 trimmed(text), rates.patch, rates.temporal,
                                 plural(max_text_tokens, "text token"), seed)) {
    code_ranks_ = total_ranks(codes_);
    if (ranks % code_ranks_ == 0) return;
    throw Error(fmt::format(
        "the data codes {} are for {}, and {} is not a multiple of that; change the g's, or "
        "the number of ranks",
        in_quotes(text), plural(code_ranks_, "rank"), ranks));
  }

  std::vector<std::int64_t> lengths(std::int64_t step, std::int64_t rank) const override {
    check_step_and_rank(step, rank, ranks_);
    const Code& code = code_of(rank);
    RandomEngine engine =
        random_stream(seed_, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(rank));
    // Integers, since floating-point products may be contracted differently on another CPU.
    const std::int64_t factor = kLeastFactor + below(engine, kMostFactor - kLeastFactor + 1);
    const std::int64_t visual = code.visual_tokens * factor / kMillion;
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(code.samples));
    for (std::int64_t& n : tokens) n = visual + below(engine, max_text_tokens_ + 1);
    return tokens;
  }

  std::string describe() const override { return description_; }

 private:
  const Code& code_of(std::int64_t rank) const {
    std::int64_t left = rank % code_ranks_;
    auto code = codes_.begin();
    for (; left >= code->ranks; ++code) left -= code->ranks;
    return *code;
  }

  std::vector<Code> codes_;
  std::int64_t code_ranks_ = 0;
  std::int64_t ranks_;
  std::uint64_t seed_;
  std::int64_t max_text_tokens_;
  std::string description_;
};

}  // namespace

std::unique_ptr<DataSource> make_code_source(std::string_view codes, const TokenRates& rates,
                                             std::int64_t ranks, std::uint64_t seed,
                                             std::int64_t max_text_tokens) {
  check_rates(rates);
  check_ranks(ranks);
  if (max_text_tokens < 0 || max_text_tokens >= CostModel::kMaxLength / 2) {
    throw Error(fmt::format("at most {} text tokens per sample; give 0 to {}", max_text_tokens,
                            CostModel::kMaxLength / 2 - 1));
  }
  return std::make_unique<CodeSource>(codes, rates, ranks, seed, max_text_tokens);
}

std::int64_t ranks_of_codes(std::string_view codes, const TokenRates& rates) {
  check_rates(rates);
  return total_ranks(parse_codes(codes, rates, 0));
}

}  // namespace knapformer
