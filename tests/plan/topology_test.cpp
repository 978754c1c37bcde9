// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/plan/topology.hpp>

#include "plan/group.hpp"

namespace knapformer {
namespace {

TEST(Topology, BagsTakeTheRanksInTheOrderWritten) {
  const Topology topology = Topology::parse("g4n1+g1n2+g3n2");
  EXPECT_EQ(topology.ranks(), 12);
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected{
      {0, 4}, {4, 1}, {5, 1}, {6, 3}, {9, 3}};
  ASSERT_EQ(topology.bags().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(topology.bags()[i].first_rank, expected[i].first);
    EXPECT_EQ(topology.bags()[i].degree, expected[i].second);
  }
}

TEST(Topology, IgnoresBlanksBetweenTokens) {
  for (const char* text : {"g1n8+g4n2", " g1n8 + g4n2 ", "g 1 n 8 +g4n2", "\tg1n8+\ng4 n2\r\n"}) {
    EXPECT_EQ(Topology::parse(text).name(), "g1n8+g4n2") << text;
  }
  EXPECT_EQ(Topology::parse("g04n008").name(), "g4n8");
}

TEST(Topology, SinglesNeverSplit) {
  EXPECT_EQ(Topology::singles(5).name(), "g1n5");
  EXPECT_EQ(Topology::singles(5).bags().size(), 5u);
  EXPECT_ERROR(Topology::singles(0), "zero");
  EXPECT_ERROR(Topology::singles(-3), "count");
}

TEST(Topology, RejectsEverythingElseAndNamesTheTerm) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"", "a term is missing"},
      {"   ", "a term is missing"},
      {"g4n8x", "\"g4n8x\": something follows"},
      {"g0n4", "\"g0n4\": its degree is zero"},
      {"g4n0", "\"g4n0\": its count is zero"},
      {"g1n2+", "a term is missing"},
      {"+g1n2", "a term is missing"},
      {"g1n2++g2n1", "a term is missing"},
      {"g1n2+g2n1+g1n4", "\"g1n4\": bags of this degree are given twice"},
      {"g1n2 g2n1", "something follows"},
      {"g1 2n2", "'n' is missing"},
      {"n8", "'g' is missing"},
      {"4n8", "'g' is missing"},
      {"g4", "'n' is missing"},
      {"gn8", "its degree is missing"},
      {"g4n", "its count is missing"},
      {"g-4n8", "its degree is missing"},
      {"g4n-0", "its count is missing"},
      {"g+4n8", "its degree is missing"},
      {"G4N8", "'g' is missing"},
      {"g4.5n8", "'n' is missing"},
      {"g99999999999999999999n1", "its degree is above"},
      {"g1n99999999999999999999", "its count is above"},
      {"g16777217n1", "its degree is above"},
      {"g16777216n16777216", "more than 16777216 ranks"},
      {"g1n16777216+g2n1", "more than 16777216 ranks"},
      {"elastic0", "\"0\": its largest degree is zero"},
  };
  for (const auto& [text, part] : cases) {
    SCOPED_TRACE(text);
    EXPECT_ERROR(Topology::parse(text), part);
    EXPECT_ERROR(Topology::parse(text),
                 "; expected elastic, elastic<k> for bags of at most k ranks, or terms "
                 "g<degree>n<count> joined by '+', for example g1n4+g4n1");
  }
}

TEST(Topology, ComplaintsStayShortAndOnOneLine) {
  const std::string message =
      test::error_of([] { return Topology::parse("g4\n\x01" + std::string(100000, 'x')); });
  EXPECT_LT(message.size(), 400u);
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace knapformer
