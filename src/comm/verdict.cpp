// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "comm/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace knapformer {
namespace {

using Callers = std::map<Operation, std::vector<int>>;

std::string name_of(const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::kBarrier:
      return "a barrier";
    case Operation::Kind::kAllGather:
      return fmt::format("an all-gather of {} bytes", operation.fingerprint);
    case Operation::Kind::kAllGatherVarying:
      return "an all-gather of varying blocks";
    case Operation::Kind::kAllReduce:
      return fmt::format("an all-reduce of {} elements", operation.fingerprint);
    case Operation::Kind::kExchange:
      return fmt::format("an exchange with fingerprint {:016x}", operation.fingerprint);
  }
  return "an unknown operation";
}

/// `callers` differ. Most are taken to be right; where there is no majority, nobody is blamed.
std::string describe(std::int64_t number, const Callers& callers) {
  const auto fewer = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
  const auto most = std::max_element(callers.begin(), callers.end(), fewer);
  const auto as_many = std::count_if(callers.begin(), callers.end(), [&](const auto& each) {
    return each.second.size() == most->second.size();
  });
  std::vector<int> strays;
  std::string theirs;
  for (const auto& [operation, ranks] : callers) {
    if (as_many == 1 && operation == most->first) continue;
    strays.insert(strays.end(), ranks.begin(), ranks.end());
    theirs += fmt::format("{}{} on {}", theirs.empty() ? "" : ", ", name_of(operation),
                          name_ranks(ranks));
  }
  std::sort(strays.begin(), strays.end());
  if (as_many > 1) {
    return fmt::format("{} are out of step: operation {} is {}", name_ranks(strays), number + 1,
                       theirs);
  }
  return fmt::format("{} {} out of step with the others: operation {} is {}, but {} on {}",
                     name_ranks(strays), strays.size() == 1 ? "is" : "are", number + 1, theirs,
                     name_of(most->first), name_ranks(most->second));
}

std::vector<int> silent_among(const Stall& stall, const std::vector<int>& ranks) {
  std::vector<int> silent;
  std::ranges::copy_if(ranks, std::back_inserter(silent),
                       [&](int r) { return !stall.accounts.contains(r); });
  return silent;
}

std::vector<int> range(int first, int count) {
  std::vector<int> ranks;
  for (int r = first; r < first + count; ++r) ranks.push_back(r);
  return ranks;
}

std::string doings(const Stall& stall) {
  constexpr int kTold = 4;
  std::string text = "all ranks answer";
  int told = 0;
  for (const auto& [rank, account] : stall.accounts) {
    if (rank == stall.rank || ++told > kTold) continue;
    text += fmt::format("; rank {} waits in {}", rank, account.doing);
  }
  return text;
}

}  // namespace

std::string name_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t kNamed = 8;
  std::string names;
  const std::size_t named = ranks.size() <= kNamed ? ranks.size() : kNamed - 1;
  for (std::size_t i = 0; i < named; ++i) {
    const char* before = i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ";
    names += fmt::format("{}{}", before, ranks[i]);
  }
  if (named < ranks.size()) names += fmt::format(" and {} more", ranks.size() - named);
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", names);
}

std::string out_of_step(const Stall& stall) {
  const auto begin = stall.accounts.lower_bound(stall.first_member);
  const auto end = stall.accounts.lower_bound(stall.first_member + stall.members);
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (auto it = begin; it != end; ++it) {
    first = std::max(first, it->second.log.first_known());
    last = std::max(last, it->second.log.started());
  }
  for (std::int64_t number = first; number < last; ++number) {
    Callers callers;
    for (auto it = begin; it != end; ++it) {
      if (const auto found = it->second.log.find(number)) callers[*found].push_back(it->first);
    }
    if (callers.size() > 1) return describe(number, callers);
  }
  return {};
}

Failure judge(const Stall& stall) {
  const auto verdict = [&](Failure::Kind kind, const std::string& finding) {
    return Failure{kind, stall.rank,
                   fmt::format("rank {}: {:.1f} s without progress in {}; {}", stall.rank,
                               stall.seconds, stall.doing, finding)};
  };
  const auto no_answer = [](const std::vector<int>& silent) {
    return fmt::format("no answer from {}: ended, stopped, or busy elsewhere", name_ranks(silent));
  };
  if (const std::string found = out_of_step(stall); !found.empty()) {
    return verdict(Failure::Kind::kOutOfStep, found);
  }
  const auto members = range(stall.first_member, stall.members);
  const auto silent = silent_among(stall, stall.awaited.empty() ? members : stall.awaited);
  if (!silent.empty()) return verdict(Failure::Kind::kSilence, no_answer(silent));
  for (const auto& others : {members, range(0, stall.ranks)}) {
    const auto found = silent_among(stall, others);
    if (!found.empty()) return verdict(Failure::Kind::kElsewhere, no_answer(found));
  }
  return verdict(Failure::Kind::kUnexplained, doings(stall));
}

}  // namespace knapformer
