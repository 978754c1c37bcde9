// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Who is to blame for a wait without progress, from what the ranks say.

#include "comm/verdict.hpp"

#include <gtest/gtest.h>

namespace knapformer {
namespace {

using Kind = Operation::Kind;

OperationLog log_of(const std::vector<Operation>& operations) {
  OperationLog log;
  for (const Operation& operation : operations) log.add(operation);
  return log;
}

/// Rank 0 of `ranks` waits in a barrier, and has an account of nobody else.
Stall lonely(int ranks) {
  Stall stall{.rank = 0, .seconds = 5, .doing = "a barrier", .members = ranks, .ranks = ranks};
  stall.accounts[0] = {log_of({{Kind::kBarrier, 0}}), 5, "a barrier"};
  return stall;
}

std::string text_of(const std::string& finding) {
  return "rank 0: 5.0 s without progress in a barrier; " + finding;
}

TEST(Verdict, RanksAreNamedUpToEight) {
  EXPECT_EQ(name_ranks({3}), "rank 3");
  EXPECT_EQ(name_ranks({3, 5}), "ranks 3 and 5");
  EXPECT_EQ(name_ranks({0, 1, 2, 3, 4, 5, 6, 7}), "ranks 0, 1, 2, 3, 4, 5, 6 and 7");
  EXPECT_EQ(name_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8}), "ranks 0, 1, 2, 3, 4, 5, 6 and 2 more");
}

TEST(Verdict, SilentRanksAreToBlame) {
  Stall stall = lonely(4);
  stall.accounts[1] = stall.accounts[2] = stall.accounts[0];
  const Failure failure = judge(stall);
  EXPECT_EQ(failure.kind, Failure::Kind::kSilence);
  EXPECT_EQ(failure.text, text_of("no answer from rank 3: ended, stopped, or busy elsewhere"));
}

TEST(Verdict, ThoseWaitedForComeFirstThenMembersThenOthers) {
  Stall stall = lonely(4);
  stall.members = 3;
  stall.awaited = {1};
  EXPECT_EQ(judge(stall).text, text_of("no answer from rank 1: ended, stopped, or busy elsewhere"));
  stall.accounts[1] = stall.accounts[0];
  EXPECT_EQ(judge(stall).kind, Failure::Kind::kElsewhere);
  EXPECT_EQ(judge(stall).text, text_of("no answer from rank 2: ended, stopped, or busy elsewhere"));
  stall.accounts[2] = stall.accounts[0];
  EXPECT_EQ(judge(stall).text, text_of("no answer from rank 3: ended, stopped, or busy elsewhere"));
  stall.accounts[3] = {{}, 1, "a barrier"};
  EXPECT_EQ(judge(stall).kind, Failure::Kind::kUnexplained);
  EXPECT_EQ(judge(stall).text,
            text_of("all ranks answer; rank 1 waits in a barrier; rank 2 waits in a barrier; "
                    "rank 3 waits in a barrier"));
}

TEST(Verdict, TheMinorityIsOutOfStep) {
  Stall stall = lonely(4);
  stall.accounts[0].log = log_of({{Kind::kAllGather, 8}, {Kind::kExchange, 1}});
  stall.accounts[1].log = log_of({{Kind::kAllGather, 8}});  // late is not out of step
  stall.accounts[3].log = stall.accounts[0].log;
  stall.accounts[2].log =
      log_of({{Kind::kAllGather, 8}, {Kind::kExchange, 2}, {Kind::kBarrier, 0}});
  EXPECT_EQ(judge(stall).kind, Failure::Kind::kOutOfStep);
  EXPECT_EQ(out_of_step(stall),
            "rank 2 is out of step with the others: operation 2 is an exchange with fingerprint "
            "0000000000000002 on rank 2, but an exchange with fingerprint 0000000000000001 on "
            "ranks 0 and 3");
}

TEST(Verdict, TheFirstDifferenceCounts) {
  Stall stall = lonely(3);
  stall.accounts[0].log = stall.accounts[1].log =
      log_of({{Kind::kAllReduce, 7}, {Kind::kAllGather, 8}, {Kind::kBarrier, 0}});
  stall.accounts[2].log = log_of({{Kind::kAllReduce, 7}, {Kind::kBarrier, 0}});
  EXPECT_EQ(out_of_step(stall),
            "rank 2 is out of step with the others: operation 2 is a barrier on rank 2, but an "
            "all-gather of 8 bytes on ranks 0 and 1");
}

TEST(Verdict, WithoutAMajorityNobodyIsBlamed) {
  Stall stall = lonely(2);
  stall.accounts[1].log = log_of({{Kind::kAllReduce, 5}});
  EXPECT_EQ(out_of_step(stall),
            "ranks 0 and 1 are out of step: operation 1 is a barrier on rank 0, an all-reduce of 5 "
            "elements on rank 1");
}

TEST(Verdict, OtherGroupsAndForgottenOperationsAreNotCompared) {
  Stall stall = lonely(3);
  stall.members = 2;
  stall.accounts[2].log = log_of({{Kind::kAllReduce, 5}});
  stall.accounts[1] = stall.accounts[0];
  for (int i = 0; i < 30; ++i) {
    stall.accounts[0].log.add({Kind::kExchange, 5});
    if (i < 29) stall.accounts[1].log.add({Kind::kExchange, 5});
  }
  EXPECT_EQ(out_of_step(stall), "");
  stall.accounts[1].log.add({Kind::kExchange, 6});
  EXPECT_NE(out_of_step(stall).find("operation 31"), std::string::npos) << out_of_step(stall);
}

TEST(Verdict, WhatARankSaysOutweighsWhatOthersSee) {
  const Failure complaint{Failure::Kind::kComplaint, 7, "b"};
  const Failure silence{Failure::Kind::kSilence, 1, "a"};
  EXPECT_LT(complaint, silence);
  EXPECT_LT(silence, (Failure{Failure::Kind::kElsewhere, 0, "a"}));
  EXPECT_LT(silence, (Failure{Failure::Kind::kSilence, 2, "a"}));
}

}  // namespace
}  // namespace knapformer
