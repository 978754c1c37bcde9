// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "knapformer/train/data_source.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <string>

#include "knapformer/plan/error.hpp"
#include "knapformer/train/paper_workloads.hpp"
#include "support/scratch_folder.hpp"

namespace knapformer {
namespace {

using test::expect_message;
using test::message_of;
using test::ScratchFolder;
using Lengths = std::vector<std::int64_t>;

/// A manifest whose samples have 0, 1, ..., samples - 1 tokens.
std::filesystem::path numbered_manifest(const ScratchFolder& folder, int samples) {
  std::string text = "width,height,frames,caption_tokens\n";
  for (int i = 0; i < samples; ++i) text += "1,1,1," + std::to_string(i) + "\n";
  return folder.write("numbered.csv", text);
}

Lengths stream(const DataSource& source, std::int64_t ranks, std::int64_t steps) {
  Lengths all;
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const Lengths dealt = source.lengths(step, rank);
      all.insert(all.end(), dealt.begin(), dealt.end());
    }
  }
  return all;
}

Lengths epoch_of(const Lengths& all, std::ptrdiff_t epoch, std::ptrdiff_t samples) {
  return {all.begin() + epoch * samples, all.begin() + (epoch + 1) * samples};
}

TEST(ManifestSource, EveryEpochIsAnotherPermutation) {
  const ScratchFolder folder;
  constexpr int kSamples = 23;
  for (const std::int64_t each : {1, 4, 30}) {
    const auto source = make_manifest_source(numbered_manifest(folder, kSamples), {}, {3, each, 7});
    const Lengths all = stream(*source, 3, 40);
    ASSERT_EQ(all.size(), 3 * each * 40);
    Lengths numbers(kSamples);
    std::iota(numbers.begin(), numbers.end(), 0);
    Lengths previous = numbers;
    for (std::ptrdiff_t epoch = 0; (epoch + 1) * kSamples <= std::ssize(all); ++epoch) {
      Lengths order = epoch_of(all, epoch, kSamples);
      EXPECT_NE(order, previous) << "epoch " << epoch;
      previous = order;
      std::sort(order.begin(), order.end());
      EXPECT_EQ(order, numbers) << "epoch " << epoch << " misses samples";
    }
  }
}

TEST(ManifestSource, AnyStepAndRankMayBeAskedInAnyOrder) {
  const ScratchFolder folder;
  const auto file = numbered_manifest(folder, 101);
  const auto one = make_manifest_source(file, {}, {4, 3, 99});
  const Lengths all = stream(*one, 4, 60);
  const auto other = make_manifest_source(file, {}, {4, 3, 99});
  for (std::int64_t step = 59; step >= 0; step -= 7) {
    for (const std::int64_t rank : {2, 0, 3}) {
      const auto first = all.begin() + (step * 4 + rank) * 3;
      EXPECT_EQ(other->lengths(step, rank), Lengths(first, first + 3));
    }
  }
  EXPECT_EQ(stream(*other, 4, 60), all);
  EXPECT_NE(stream(*make_manifest_source(file, {}, {4, 3, 100}), 4, 60), all) << "another seed";
}

TEST(ManifestSource, TheShuffleFavoursNoSample) {
  const ScratchFolder folder;
  const auto file = numbered_manifest(folder, 10);
  const auto source = make_manifest_source(file, {}, {1, 10, 5});
  constexpr int kEpochs =
      9000;  // each sample comes first, and last, in 900 of them, give or take 28
  std::map<std::int64_t, int> first, last;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Lengths order = source->lengths(epoch, 0);
    ++first[order.front()];
    ++last[order.back()];
  }
  for (std::int64_t sample = 0; sample < 10; ++sample) {
    EXPECT_NEAR(first[sample], 900, 5 * 28.5) << sample;
    EXPECT_NEAR(last[sample], 900, 5 * 28.5) << sample;
  }
}

TEST(ManifestSource, StepsFarAwayAreCheapAndChecked) {
  const ScratchFolder folder;
  const auto source = make_manifest_source(numbered_manifest(folder, 10), {}, {4, 2, 1});
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(source->lengths(kMost / 8 - 1, 3).size(), 2);
  expect_message(message_of<Error>([&] { source->lengths(kMost / 8, 0); }), {"step"});
  expect_message(message_of<Error>([&] { source->lengths(-1, 0); }), {"step -1"});
  expect_message(message_of<Error>([&] { source->lengths(0, 4); }), {"rank 4", "4 ranks"});
  expect_message(message_of<Error>([&] { source->lengths(0, -1); }), {"rank -1"});
}

TEST(ManifestSource, DescribesItselfAndRefusesNonsense) {
  const ScratchFolder folder;
  const auto file = numbered_manifest(folder, 10);
  const auto make = [&](const TokenRates& rates, const Dealing& dealing) {
    return make_manifest_source(file, rates, dealing);
  };
  expect_message(make({48, 6.5}, {4, 2, 123})->describe(),
                 {"numbered.csv", "10 samples", "48", "6.5", "2 samples per rank", "seed 123"});
  expect_message(message_of<Error>([&] { make({}, {0, 1, 1}); }), {"0 ranks"});
  expect_message(message_of<Error>([&] { make({}, {-3, 1, 1}); }), {"-3 ranks"});
  expect_message(message_of<Error>([&] { make({}, {1, 0, 1}); }), {"0 samples per rank"});
  expect_message(message_of<Error>([&] { make({}, {1, 1LL << 50, 1}); }), {"samples per rank"});
  expect_message(message_of<Error>([&] { make({-1, 1}, {1, 1, 1}); }), {"patch rate -1"});
}

constexpr std::string_view kJoint =
    "g8b4i256f1s0,g2b5i512f1s0,g2b5i1024f1s0,g4b1i2048f1s0,g1b10i256f4s0,g3b1i512f4s0,"
    "g8b2i256f85s1,g4b1i512f85s1";

TEST(CodeSource, DrawsWhatTheCodesSay) {
  // Ranks, samples and visual tokens of each term, by hand: (i / 16)^2 * frames, and 85 / 3.4 = 25.
  struct Term {
    std::int64_t ranks, samples, visual;
  };
  const Term terms[] = {{8, 4, 256},   {2, 5, 1024},     {2, 5, 4096},     {4, 1, 16384},
                        {1, 10, 1024}, {3, 1, 1024 * 4}, {8, 2, 256 * 25}, {4, 1, 1024 * 25}};
  const auto source = make_code_source(kJoint, {}, 64, 11);
  std::int64_t rank = 0;
  for (int repetition = 0; repetition < 2; ++repetition) {
    for (const auto& [ranks, samples, visual] : terms) {
      for (std::int64_t end = rank + ranks; rank < end; ++rank) {
        for (std::int64_t step = 0; step < 50; ++step) {
          const Lengths lengths = source->lengths(step, rank);
          ASSERT_EQ(lengths.size(), samples) << rank;
          const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
          EXPECT_GE(*least, visual * 96 / 100) << rank;
          EXPECT_LE(*most, visual * 104 / 100 + 392) << rank;
          EXPECT_LE(*most - *least, 392) << "one factor for the samples of a rank and step";
        }
      }
    }
  }
  EXPECT_EQ(rank, 64);
}

TEST(CodeSource, TheFactorIsUniformAndDrawnForEachRankAndStep) {
  constexpr std::int64_t kVisual = 4096 * 10000;
  const auto source = make_code_source("g4b2i1024f10000s0", {}, 4, 3, 0);
  constexpr int kSteps = 5000;
  double sum = 0, sum_of_squares = 0, least = 2, most = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      const Lengths lengths = source->lengths(step, rank);
      EXPECT_EQ(lengths[0], lengths[1]);
      const double factor = static_cast<double>(lengths[0]) / kVisual;
      sum += factor;
      sum_of_squares += (factor - 1) * (factor - 1);
      least = std::min(least, factor);
      most = std::max(most, factor);
    }
  }
  constexpr double kDraws = 4.0 * kSteps;
  const double sigma = 0.08 / std::sqrt(12.0);
  EXPECT_NEAR(sum / kDraws, 1, 5 * sigma / std::sqrt(kDraws));
  EXPECT_NEAR(sum_of_squares / kDraws / (sigma * sigma), 1, 5 * std::sqrt(0.8 / kDraws));
  EXPECT_GE(least, 0.96 - 1e-6);
  EXPECT_LT(least, 0.9601);
  EXPECT_LE(most, 1.04);
  EXPECT_GT(most, 1.0399);
}

TEST(CodeSource, TextIsUniformFrom0To392) {
  const auto source = make_code_source("g1b1000i1f1s0", {}, 1, 8);
  std::map<std::int64_t, int> count;
  for (std::int64_t step = 0; step < 393; ++step) {
    for (std::int64_t tokens : source->lengths(step, 0)) ++count[tokens];
  }
  EXPECT_EQ(count.size(), 393);
  EXPECT_EQ(count.begin()->first, 0);
  EXPECT_EQ(count.rbegin()->first, 392);
  for (const auto& [tokens, times] : count) EXPECT_NEAR(times, 1000, 6 * 31.6) << tokens;
}

TEST(CodeSource, RatesScaleTheSamples) {
  const auto source = make_code_source("g1b1i256f40s1", {64, 8}, 1, 0, 5);
  for (std::int64_t step = 0; step < 200; ++step) {
    const std::int64_t tokens = source->lengths(step, 0)[0];
    EXPECT_GE(tokens, 4 * 4 * 5 * 96 / 100);
    EXPECT_LE(tokens, 4 * 4 * 5 * 104 / 100 + 5);
  }
}

TEST(CodeSource, TheSameForTheSameSeedOnly) {
  const auto one = make_code_source(kJoint, {}, 32, 1);
  EXPECT_EQ(stream(*one, 32, 3), stream(*make_code_source(kJoint, {}, 32, 1), 32, 3));
  EXPECT_NE(stream(*one, 32, 3), stream(*make_code_source(kJoint, {}, 32, 2), 32, 3));
  EXPECT_NE(one->lengths(0, 0), one->lengths(1, 0));
  EXPECT_NE(one->lengths(0, 0), one->lengths(0, 1));
}

TEST(CodeSource, RanksWithoutSamplesAndBlanksAreOrdinary) {
  const auto source = make_code_source(" g1b0i256f1s0 , g1b1i256f1s0 ", {}, 2, 1);
  EXPECT_TRUE(source->lengths(0, 0).empty());
  EXPECT_EQ(source->lengths(0, 1).size(), 1);
  expect_message(source->describe(), {"g1b0i256f1s0", "patch 16", "3.4", "392", "seed 1"});
}

TEST(CodeSource, ErrorsQuoteTheTermAndGiveAnExample) {
  struct Case {
    std::string_view codes;
    std::initializer_list<std::string_view> parts;
  };
  const Case cases[] = {
      {"", {"''", "term 1"}},
      {"g1b1i256f1s0,", {"''", "term 2"}},
      {"g1b1i256f1s0,g1b1i256f1", {"'g1b1i256f1'", "term 2"}},
      {"b1g1i256f1s0", {"'b1g1i256f1s0'", "expected g<ranks>b<samples"}},
      {"g1b1i256f1s0x", {"'x' follows"}},
      {"g1b1i256f1s2", {"s (temporal compression) '2' is not between 0 and 1"}},
      {"g0b1i256f1s0", {"g (ranks) '0' is not between 1"}},
      {"g-1b1i256f1s0", {"g (ranks) '-1' is negative"}},
      {"g1b1.5i256f1s0", {"b (samples per rank) '1.5' is not an integer"}},
      {"gb1i256f1s0", {"g (ranks) is missing"}},
      {"g1b1i0f1s0", {"i (resolution) '0'"}},
      {"g1b1i256f0s0", {"f (frames) '0'"}},
      {"g99999999999999999999b1i256f1s0", {"g (ranks) '99999999999999999999'"}},
      {"g1b1i1000000000f1000000000s0", {"more than 1099511627776 tokens"}},
      {"g1b1i16f1099511627776s0", {"more than 1099511627776 tokens"}},
      {"g1b9999999i256f1s0", {"b (samples per rank) '9999999'"}},
      {"G1B1I256F1S0", {"'G1B1I256F1S0'"}},
      {"lowres\n", {"'lowres\\x0a'"}},
  };
  for (const auto& [codes, parts] : cases) {
    const std::string message = message_of<Error>([&] { make_code_source(codes, {}, 1, 0); });
    expect_message(message, parts);
    expect_message(message, {"a valid example: g8b4i256f1s0,g4b5i512f85s1"});
  }
  EXPECT_NO_THROW(make_code_source("g8b4i256f1s0,g4b5i512f85s1", {}, 12, 0)) << "that example";
}

TEST(CodeSource, ErrorsOfTheWorld) {
  const auto make = [](std::int64_t ranks, std::int64_t text) {
    return make_code_source("g1b1i256f1s0,g2b1i512f1s0", {}, ranks, 0, text);
  };
  EXPECT_NO_THROW(make(6, 0));
  expect_message(message_of<Error>([&] { make(4, 0); }), {"3 ranks", "4 is not a multiple"});
  expect_message(message_of<Error>([&] { make(2, 0); }), {"3 ranks", "2 is not a multiple"});
  expect_message(message_of<Error>([&] { make(0, 0); }), {"0 ranks"});
  expect_message(message_of<Error>([&] { make(3, -1); }), {"-1 text tokens"});
}

TEST(PaperSource, DealsTheSameSequencesToFewerRanks) {
  for (const PaperWorkload& workload : kPaperWorkloads) {
    const auto full = make_code_source(workload.codes, {}, kPaperRanks, 3);
    const Lengths all = stream(*full, kPaperRanks, 2);
    for (const std::int64_t ranks : {1, 2, 3, 5, 32}) {
      EXPECT_EQ(stream(*make_paper_source(workload, ranks, 3, 1), ranks, 2), all) << ranks;
    }
    const auto twice = make_paper_source(workload, 2 * kPaperRanks, 3, 1);
    EXPECT_EQ(twice->lengths(1, 0), full->lengths(1, 0));
    EXPECT_EQ(twice->lengths(1, 40).size(), full->lengths(1, 8).size());

    const Lengths scaled = stream(*make_paper_source(workload, 4, 3, 1 / 24.0), 4, 2);
    ASSERT_EQ(scaled.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(scaled[i], std::llround(static_cast<double>(all[i]) / 24)) << all[i];
    }
    const Lengths least = stream(*make_paper_source(workload, 1, 3, 1e-9), 1, 1);
    EXPECT_EQ(least, Lengths(least.size(), 1));
  }
}

TEST(PaperSource, RefusesOtherRanksAndScales) {
  const auto message = [](std::int64_t ranks, double scale) {
    return message_of<Error>([&] { make_paper_source(kPaperWorkloads[0], ranks, 0, scale); });
  };
  expect_message(message(33, 1), {"lowres", "33", "multiple"});
  expect_message(message(0, 1), {"0 ranks"});
  expect_message(message(4, 0), {"times 0"});
  expect_message(message(4, 1.5), {"times 1.5"});
  expect_message(message(4, std::nan("")), {"times nan"});
}

}  // namespace
}  // namespace knapformer
