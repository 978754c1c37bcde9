// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/nccl_rounds.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace knapformer {
namespace {

/// How many messages each pair of simulated ranks has.
using Messages = std::vector<std::vector<int>>;

/// The ranges of the pair (from, to) that are in a round.
using Pair = std::pair<int, int>;

/// What one rank puts into its groups, found from its own sends and receives alone.
struct RankGroups {
  std::map<std::int64_t, std::map<Pair, std::vector<int>>> rounds;
};

RankGroups groups_of(int rank, const Messages& messages, std::int64_t limit) {
  const int ranks = static_cast<int>(messages.size());
  const NcclRounds rounds(ranks, limit);
  RankGroups out;
  const auto add = [&](int from, int to) {
    const int count = messages[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
    for (int i = 0; i < count; ++i) out.rounds[rounds.round(from, to, i)][{from, to}].push_back(i);
  };
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    add(rank, peer);
    add(peer, rank);
  }
  return out;
}

/// Executes the groups of all ranks, each rank one group after another, as NCCL does on a stream. A
/// group completes when for each pair in it the peer is in a group with the same messages.
void expect_to_complete(const Messages& messages, std::int64_t limit) {
  const std::size_t ranks = messages.size();
  std::vector<RankGroups> all;
  for (std::size_t r = 0; r < ranks; ++r) {
    all.push_back(groups_of(static_cast<int>(r), messages, limit));
    for (const auto& [round, pairs] : all[r].rounds) {
      std::size_t operations = 0;
      for (const auto& [pair, indices] : pairs) operations += indices.size();
      ASSERT_LE(operations, static_cast<std::size_t>(limit)) << "rank " << r << ", round " << round;
    }
  }
  using Current = std::map<std::int64_t, std::map<Pair, std::vector<int>>>::const_iterator;
  std::vector<Current> current;
  for (const RankGroups& rank : all) current.push_back(rank.rounds.begin());
  // A group frees its rank when all partners have met it; a partner may still wait for others.
  std::map<Pair, int> met;  // ranks that are, or were, in the group with the next part of a pair
  std::size_t finished = 0;
  for (const RankGroups& rank : all) finished += rank.rounds.empty();
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < ranks; ++r) {
      if (current[r] == all[r].rounds.end()) continue;
      bool complete = true;
      for (const auto& [pair, indices] : current[r]->second) {
        const auto peer =
            static_cast<std::size_t>(pair.first == static_cast<int>(r) ? pair.second : pair.first);
        // The peer must have come to the same round, with the same messages, or be past it.
        const auto theirs = all[peer].rounds.find(current[r]->first);
        ASSERT_TRUE(theirs != all[peer].rounds.end());
        ASSERT_EQ(theirs->second.at(pair), indices);
        complete = complete && (current[peer] == all[peer].rounds.end() ||
                                current[peer]->first >= current[r]->first);
      }
      if (!complete) continue;
      ++current[r];
      finished += current[r] == all[r].rounds.end();
      moved = true;
    }
  }
  EXPECT_EQ(finished, ranks) << "ranks wait for each other";
}

Messages uniform(std::size_t ranks, int count) {
  return Messages(ranks, std::vector<int>(ranks, count));
}

TEST(NcclRounds, OneGroupWhereItFits) {
  for (const int ranks : {2, 3, 8, 64}) {
    const NcclRounds rounds(ranks);
    const int most = 1024 / (ranks - 1);
    for (int to = 1; to < ranks; ++to) {
      EXPECT_EQ(rounds.round(0, to, most - 1), 0);
      EXPECT_GT(rounds.round(0, to, most), 0);
    }
  }
}

TEST(NcclRounds, RanksFillNccl) {
  // 1024 others: exactly 2048 operations.
  const auto groups = groups_of(3, uniform(1025, 1), kNcclGroupLimit);
  EXPECT_EQ(groups.rounds.size(), 1u);
  EXPECT_EQ(groups_of(3, uniform(1026, 1), kNcclGroupLimit).rounds.size(), 2u);
}

TEST(NcclRounds, ManyRanksSplitTheirGroupsAlike) {
  expect_to_complete(uniform(1025, 1), kNcclGroupLimit);
  expect_to_complete(uniform(1026, 1), kNcclGroupLimit);
  std::mt19937_64 random(1);
  Messages sparse = uniform(1025, 0);
  for (auto& row : sparse) {
    for (int i = 0; i < 40; ++i) row[random() % row.size()] = static_cast<int>(random() % 5);
  }
  expect_to_complete(sparse, kNcclGroupLimit);
}

TEST(NcclRounds, RandomExchangesSplitAlikeUnderAnyLimit) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Messages messages = uniform(1 + random() % 12, 0);
    for (auto& row : messages) {
      for (int& count : row) count = random() % 2 ? 0 : static_cast<int>(random() % 30);
    }
    expect_to_complete(messages, static_cast<std::int64_t>(2 + random() % 40));
  }
}

}  // namespace
}  // namespace knapformer
