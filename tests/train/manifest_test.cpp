// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "knapformer/train/manifest.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>
#include <string>

#include "knapformer/plan/error.hpp"
#include "support/scratch_folder.hpp"

namespace knapformer {
namespace {

using test::expect_message;
using test::message_of;
using test::ScratchFolder;

const std::string kHeader = "width,height,frames,caption_tokens\n";

std::string error_of(const std::filesystem::path& file, const TokenRates& rates = {}) {
  return message_of<Error>([&] { read_manifest(file, rates); });
}

TEST(Manifest, CountsTokensAsTheFormulaSays) {
  EXPECT_EQ(sample_tokens({1280, 720, 201, 6}), 80 * 45 * 59 + 6);
  EXPECT_EQ(sample_tokens({1280, 832, 1, 135}), 80 * 52 + 135);
  EXPECT_EQ(sample_tokens({31, 47, 1, 0}), 1 * 2);
  EXPECT_EQ(sample_tokens({32, 32, 2, 0}), 4) << "a short video keeps one frame";
  EXPECT_EQ(sample_tokens({32, 32, 17, 0}), 4 * 5);
  EXPECT_EQ(sample_tokens({15, 4000, 300, 7}), 7) << "less than a patch: captions only";
  EXPECT_EQ(sample_tokens({15, 4000, 300, 0}), 0);
}

TEST(Manifest, RatesAreSettableAndMayBeFractional) {
  EXPECT_EQ(sample_tokens({100, 50, 1, 1}, {12.5, 3.4}), 8 * 4 + 1);
  EXPECT_EQ(sample_tokens({64, 64, 9, 0}, {64, 0.5}), 18);
  EXPECT_EQ(sample_tokens({64, 64, 9, 0}, {64, 1000}), 1);
}

TEST(Manifest, ReadsTheRealOnes) {
  const std::filesystem::path folder = std::filesystem::path(KNAPFORMER_TEST_DATA) / "manifests";
  const auto images = read_manifest(folder / "images.csv");
  EXPECT_EQ(images.size(), 5000);
  const auto videos = read_manifest(folder / "videos_and_images.csv");
  ASSERT_EQ(videos.size(), 10095);
  EXPECT_EQ(videos[0], 212406);
  EXPECT_EQ(videos[1], 4295);
  EXPECT_EQ(videos[2], 91798);
  EXPECT_EQ(videos[3], 82981);
}

TEST(Manifest, ToleratesBlankLinesLineEndsAndByteOrderMark) {
  const ScratchFolder folder;
  const auto expected = std::vector<std::int64_t>{4 + 1, 16};
  EXPECT_EQ(read_manifest(folder.write("plain", kHeader + "32,32,1,1\n64,64,1,0\n")), expected);
  EXPECT_EQ(read_manifest(folder.write("no-end", kHeader + "32,32,1,1\n64,64,1,0")), expected);
  EXPECT_EQ(read_manifest(folder.write("dos",
                                       "\xef\xbb\xbfwidth,height,frames,caption_tokens\r\n"
                                       "32,32,1,1\r\n\r\n64,64,1,0\r\n")),
            expected);
  EXPECT_EQ(
      read_manifest(folder.write("blank", "\n" + kHeader + "\n32,32,1,1\n \t\n64,64,1,0\n\n")),
      expected);
}

TEST(Manifest, ErrorsNameFileLineAndValue) {
  const ScratchFolder folder;
  struct Case {
    std::string row;
    std::initializer_list<std::string_view> parts;
  };
  const Case cases[] = {
      {"640,480,1", {"'640,480,1'", "4 columns", "width,height,frames,caption_tokens"}},
      {"640,480,1,2,3", {"'640,480,1,2,3'", "4 columns"}},
      {"640,480,1,2,", {"4 columns"}},
      {"-640,480,1,2", {"width '-640' is negative"}},
      {"640,480,1,-2", {"caption_tokens '-2' is negative; at least 0"}},
      {"640,480.5,1,2", {"height '480.5' is not an integer"}},
      {"640,480,1e3,2", {"frames '1e3' is not an integer"}},
      {"640,480,nan,2", {"frames 'nan' is not an integer"}},
      {"640,+480,1,2", {"height '+480' is not an integer"}},
      {"640, 480,1,2", {"height ' 480' is not an integer"}},
      {"640,0x10,1,2", {"height '0x10' is not an integer"}},
      {"640,480,,2", {"frames is missing"}},
      {"640,480,1,", {"caption_tokens is missing"}},
      {"0,480,1,2", {"width '0' is not between 1 and"}},
      {"640,480,0,2", {"frames '0' is not between 1 and"}},
      {"640,480,1,99999999999999999999999", {"caption_tokens '99999999999999999999999' is not"}},
      {"640,480,1,1099511627777", {"caption_tokens '1099511627777'", "1099511627776"}},
      {"1000000000,1000000000,1,0", {"1000000000 x 1000000000", "more than 1099511627776 tokens"}},
      {"64,64,1,1099511627776", {"more than 1099511627776 tokens"}},
      {std::string("6\0"
                   "40,480,1,2",
                   12),
       {"width '6\\x0040' is not an integer"}},
      {"640,\xff\xfe\x01,1,2", {"height '\\xff\\xfe\\x01' is not an integer"}},
      {std::string(1 << 20, '7') + ",480,1,2", {"width '777", "...' is not between"}},
  };
  for (const auto& [row, parts] : cases) {
    const std::string message =
        error_of(folder.write("m.csv", kHeader + "1,1,1,0\n\n" + row + "\n"));
    expect_message(message, parts);
    expect_message(message, {"m.csv, line 4:"});
    EXPECT_LT(message.size(), 400);
  }
}

TEST(Manifest, ErrorsOfWholeFiles) {
  const ScratchFolder folder;
  expect_message(error_of(folder / "none.csv"), {"none.csv does not exist"});
  expect_message(error_of(folder.write("file", "") / "none.csv"), {"none.csv"});
  expect_message(error_of(folder / ""), {"is a directory", "width,height,frames,caption_tokens"});
  expect_message(error_of(""), {"does not exist"});
  expect_message(error_of(folder.write("e.csv", "")), {"e.csv is empty", "width,height"});
  expect_message(error_of(folder.write("e.csv", "\r\n \n")), {"e.csv is empty"});
  expect_message(error_of(folder.write("h.csv", kHeader)), {"h.csv", "no samples"});
  expect_message(error_of(folder.write("h.csv", "640,480,1,2\n")),
                 {"h.csv, line 1", "'640,480,1,2'", "expected width,height,frames,caption_tokens"});
  expect_message(error_of(folder.write("h.csv", "width;height;frames;caption_tokens\n")),
                 {"header"});
  expect_message(error_of(folder.write("h.csv", std::string(100, '\0'))),
                 {"header", "'\\x00\\x00", "...'"});

  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_message(error_of(folder / "pipe"),
                 {"not a regular file"});  // and does not wait for a writer
}

TEST(Manifest, RefusesRatesThatAreNot) {
  const ScratchFolder folder;
  const auto file = folder.write("m.csv", kHeader + "640,480,9,2\n");
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  expect_message(error_of(file, {0, 1}), {"patch rate 0", "above 0"});
  expect_message(error_of(file, {-2, 1}), {"patch rate -2"});
  expect_message(error_of(file, {kNan, 1}), {"patch rate nan"});
  expect_message(error_of(file, {1, kInfinity}), {"temporal rate inf"});
  expect_message(error_of(file, {1e-300, 1}), {"m.csv, line 2", "more than", "1e-300"});
  expect_message(error_of(file, {1000, 5e-324}), {"m.csv, line 2", "more than"});
}

}  // namespace
}  // namespace knapformer
