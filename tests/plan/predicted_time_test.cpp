// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Predicted times that can be worked out by hand. On the machine below a unit of work takes a
// second, a row of d elements takes one second within a node and four between nodes, and a peer
// costs an eighth of a second.

#include "plan/group.hpp"

namespace knapformer {
namespace {

constexpr std::int64_t kWidth = 8;
constexpr std::int64_t kLayers = 3;
constexpr double kPeer = 0.125;
constexpr double kAttention = 3 * kLayers;  // exchanges before and after attention in a step
constexpr double kRouting = 4;

Machine machine(std::vector<double> speeds = {}) {
  return {.ranks_per_node = 2,
          .flops = 4 * kLayers * 4 * kWidth,
          .bandwidth_within = 2 * kWidth,
          .bandwidth_between = 2 * kWidth / 4,
          .latency = kPeer,
          .layers = kLayers,
          .bytes_per_element = 2,
          .speeds = std::move(speeds)};
}

struct Sequence {
  std::int64_t home;
  std::vector<Chunk> chunks;  // rank, tokens and heads; the rest follows from them
};

Chunk share(std::int64_t rank, std::int64_t tokens, std::int64_t heads) {
  return {.rank = rank, .tokens = tokens, .heads = heads};
}

PlanReport report_of(std::int64_t heads, const std::vector<Sequence>& sequences,
                     const Machine& on = machine(), std::int64_t ranks = 4) {
  std::vector<std::int64_t> homes, lengths, offsets{0};
  std::vector<Chunk> chunks;
  for (const Sequence& sequence : sequences) {
    std::int64_t tokens = 0, first_head = 0;
    for (Chunk chunk : sequence.chunks) {
      chunk.first_token = tokens;
      chunk.first_head = first_head;
      tokens += chunk.tokens;
      first_head += chunk.heads;
      chunks.push_back(chunk);
    }
    homes.push_back(sequence.home);
    lengths.push_back(tokens);
    offsets.push_back(std::ssize(chunks));
  }
  return Plan(ranks, heads, CostModel::transformer(kWidth, 1), homes, lengths, offsets, chunks, {},
              on)
      .report();
}

double work(double tokens) { return 6 * kWidth * tokens + tokens * tokens; }

void expect_seconds(const PlanReport& report, const std::vector<double>& expected) {
  ASSERT_EQ(report.seconds.size(), expected.size());
  double slowest = 0;
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    EXPECT_NEAR(report.seconds[rank], expected[rank], 1e-9) << "rank " << rank;
    slowest = std::max(slowest, expected[rank]);
  }
  EXPECT_NEAR(report.step_seconds, slowest, 1e-9);
  EXPECT_NEAR(report.step_over_ideal, slowest / report.ideal_seconds, 1e-9);
}

TEST(PredictedTime, OfTokensThatStayIsTheirWork) {
  const PlanReport report = report_of(1, {{0, {share(0, 10, 1)}}, {2, {share(2, 4, 1)}}});
  EXPECT_EQ(work(10), 580);
  expect_seconds(report, {580, 0, 208, 0});
  EXPECT_DOUBLE_EQ(report.step_seconds_before, 580);
  EXPECT_DOUBLE_EQ(report.ideal_seconds, (580 + 208) / 4.0);
  EXPECT_EQ(report.moved_tokens, 0);
  EXPECT_EQ(report.crossed_tokens, 0);
  EXPECT_EQ(report.ulysses_bytes_per_layer, 0);
}

TEST(PredictedTime, RoutingDependsOnTheNode) {
  const double within = kRouting * (10 + kPeer), between = kRouting * (4 * 10 + kPeer);
  const PlanReport near = report_of(1, {{0, {share(1, 10, 1)}}});
  expect_seconds(near, {within, 580 + within, 0, 0});
  EXPECT_EQ(near.moved_tokens, 10);
  EXPECT_EQ(near.crossed_tokens, 0);
  const PlanReport far = report_of(1, {{0, {share(2, 10, 1)}}});
  expect_seconds(far, {between, 0, 580 + between, 0});
  EXPECT_EQ(far.moved_tokens, 10);
  EXPECT_EQ(far.crossed_tokens, 10);
}

TEST(PredictedTime, RoutingCountsTheLargerDirectionOfEachKindOfLinkAndEveryPeerOnce) {
  // Rank 0 sends 10 and 2 rows to rank 1 and 3 to rank 2; it receives 6 from rank 1, 5 from rank 3.
  const PlanReport report = report_of(1, {{0, {share(1, 10, 1)}},
                                          {0, {share(1, 2, 1)}},
                                          {0, {share(2, 3, 1)}},
                                          {1, {share(0, 6, 1)}},
                                          {3, {share(0, 5, 1)}}});
  expect_seconds(report, {work(6) + work(5) + kRouting * (12 + 4 * 5 + 3 * kPeer),
                          work(10) + work(2) + kRouting * (12 + kPeer),
                          work(3) + kRouting * (4 * 3 + kPeer), kRouting * (4 * 5 + kPeer)});
  EXPECT_EQ(report.moved_tokens, 26);
  EXPECT_EQ(report.crossed_tokens, 8);
  EXPECT_DOUBLE_EQ(report.step_seconds_before, work(10) + work(2) + work(3));
}

TEST(PredictedTime, SplitWithinANode) {
  // Before attention rank 0 sends 7 tokens' 2 of 8 heads of q, k and v, and receives 3 tokens' 6 of
  // 8; after it the other way round.
  const PlanReport report = report_of(8, {{0, {share(0, 7, 6), share(1, 3, 2)}}});
  const double exchange = kAttention * (4 * 3 * 6 / 8.0 + 2 * kPeer);
  const double routing = kRouting * (3 + kPeer);
  expect_seconds(report, {6 * kWidth * 7 + 75 + exchange + routing,
                          6 * kWidth * 3 + 25 + exchange + routing, 0, 0});
  // Three tensors out and one back, each of (7 * 2 + 3 * 6) / 8 rows from one of the two.
  EXPECT_DOUBLE_EQ(report.ulysses_tokens, 4);
  EXPECT_DOUBLE_EQ(report.ulysses_bytes_per_layer, 4 * 4 * kWidth * 2);
}

TEST(PredictedTime, SplitAcrossNodesWithUnevenShares) {
  // 9, 8 and 7 of 24 heads with 5, 4 and 3 of 12 tokens, on two ranks of one node and one of the
  // next; in rows of a 24th, the larger of sent and received, within and between nodes:
  // rank 0: 5 * 8 within, 5 * 7 between; rank 1: 5 * 8, 4 * 7; rank 2: 0, (5 + 4) * 7.
  const PlanReport report = report_of(24, {{0, {share(0, 5, 9), share(1, 4, 8), share(2, 3, 7)}}});
  const auto exchange = [](double within, double between) {
    return kAttention * (4 * (within + 4 * between) / 24 + 2 * 2 * kPeer);
  };
  expect_seconds(
      report,
      {6 * kWidth * 5 + 144 * 9 / 24.0 + exchange(40, 35) + kRouting * (4 + 4 * 3 + 2 * kPeer),
       6 * kWidth * 4 + 144 * 8 / 24.0 + exchange(40, 28) + kRouting * (4 + kPeer),
       6 * kWidth * 3 + 144 * 7 / 24.0 + exchange(0, 63) + kRouting * (4 * 3 + kPeer), 0});
  EXPECT_EQ(report.moved_tokens, 7);
  EXPECT_EQ(report.crossed_tokens, 3);
  EXPECT_DOUBLE_EQ(report.ulysses_tokens, (5 * 15 + 4 * 16 + 3 * 17) / 24.0);
}

TEST(PredictedTime, SequencesOfOneBagShareItsExchanges) {
  // What one sequence sends too much the other receives too much: 7 * 4 + 3 * 4 of 8 both ways.
  const PlanReport report =
      report_of(8, {{0, {share(0, 7, 4), share(1, 3, 4)}}, {0, {share(1, 7, 4), share(0, 3, 4)}}});
  const double exchange = kAttention * (4 * (7 + 3) * 4 / 8.0 + 2 * kPeer);
  const double seconds = 6 * kWidth * 10 + 100 + exchange + kRouting * (10 + kPeer);
  expect_seconds(report, {seconds, seconds, 0, 0});
}

TEST(PredictedTime, PeersAreTheSameWhereverTheBagsAre) {
  constexpr std::int64_t kRanks = 256;
  const auto seconds_from = [&](std::int64_t r) {
    const PlanReport report =
        report_of(24,
                  {{r, {share(r, 5, 9), share(r + 1, 4, 8), share(r + 2, 3, 7)}},
                   {r, {share(r + 2, 5, 12), share(r, 4, 12)}},
                   {r + 1, {share(r + 1, 9, 20), share(r + 3, 2, 4)}}},
                  machine(), kRanks);
    return std::vector<double>(report.seconds.begin() + r, report.seconds.begin() + r + 4);
  };
  const std::vector<double> expected = seconds_from(0);
  for (std::int64_t r = 2; r + 4 <= kRanks; r += 2) EXPECT_EQ(seconds_from(r), expected) << r;
}

TEST(PredictedTime, SpeedsDivideTheWorkAlone) {
  const double within = kRouting * (10 + kPeer);
  const PlanReport report =
      report_of(1, {{0, {share(1, 10, 1)}}, {0, {share(0, 4, 1)}}}, machine({1, 4, 0.5, 2.5}));
  expect_seconds(report, {208 + within, 580 / 4.0 + within, 0, 0});
  EXPECT_DOUBLE_EQ(report.ideal_seconds, (580 + 208) / 8.0);
  EXPECT_DOUBLE_EQ(report.step_seconds_before, 580 + 208);
  EXPECT_DOUBLE_EQ(report.max_over_mean_before, 8);
  EXPECT_DOUBLE_EQ(report.max_over_mean, 208 / ((580 + 208) / 8.0));
}

TEST(PredictedTime, WithoutCommunicationIsTheLargestLoad) {
  Machine free = Machine::without_communication();
  free.flops = machine().flops;
  free.layers = kLayers;
  const PlanReport report =
      report_of(24, {{0, {share(0, 5, 9), share(1, 4, 8), share(2, 3, 7)}}}, free);
  expect_seconds(report, {240 + 54, 192 + 48, 144 + 42, 0});
}

TEST(PredictedTime, OfNothingIsZero) {
  const PlanReport report = report_of(1, {{0, {}}});
  EXPECT_EQ(report.seconds, (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(report.ideal_seconds, 0);
  EXPECT_EQ(report.step_over_ideal, 1);
}

}  // namespace
}  // namespace knapformer
