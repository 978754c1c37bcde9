// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/elastic/pod_balance.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace knapformer {
namespace {

// Levels this close are as good as equal: shares inside a pod are not exacter.
constexpr Ticks kClose = kIdeal / 2000;

}  // namespace

PodBalance::PodBalance(const PlanProblem& problem, const TickModel& model, const Pods& pods,
                       std::span<const std::int64_t> sequences, std::vector<Ticks> used)
    : problem_(problem),
      model_(model),
      pods_(pods),
      needs_(problem.lengths.size()),
      capacity_(pods.count()),
      used_(std::move(used)),
      tokens_(pods.count()),
      most_tokens_(pods.count(), PlanRequest::kNoCap),
      members_(pods.count()) {
  for (std::int64_t pod = 0; pod < pods.count(); ++pod) {
    for (std::int64_t rank = pods.first(pod); rank < pods.end(pod); ++rank) {
      capacity_[pod] += model.work_within(rank, std::int64_t{1} << kSpeedBits);
    }
  }
  start_at_home(sequences);
  if (pods.count() == 1) return;
  if (problem.max_tokens < PlanRequest::kNoCap) {
    deal_out(sequences);
  } else {
    // A long sequence may fill a pod so that others must leave it in turn.
    for (int pass = 0; pass < 4; ++pass) {
      leave_full_pods();
      if (leaving_.empty()) break;
      fill_free_pods();
    }
  }
  even_out();
}

// Its work, and the exchanges around attention if it is split as little as it can be.
Ticks PodBalance::needed(std::int64_t i) const {
  constexpr int kBits = 20;
  const Ticks work = model_.whole(i);
  if (work <= kIdeal) return work;
  const std::int64_t parts = work >> (kIdealBits - kBits);  // in 2^-20 of a rank
  const std::int64_t full = parts >> kBits;
  const Work rest = parts - (full << kBits);
  const Work together =
      (((Work{full} << (2 * kBits)) + rest * rest) << kBits) / (Work{parts} * parts);
  const Work talk = model_.of_attention_rows(problem_.lengths[i] * problem_.heads, false);
  const Work more = ((talk * ((Work{1} << kBits) - together)) >> kBits) +
                    Work{full} * (full + 1) * model_.per_bag_peer();
  return work + static_cast<Ticks>(std::min<Work>(more, work));
}

void PodBalance::start_at_home(std::span<const std::int64_t> sequences) {
  for (const std::int64_t i : sequences) {
    const std::int64_t pod = pods_.of(problem_.homes[i]);
    needs_[i] = needed(i);
    members_[pod].push_back(i);
    used_[pod] += needs_[i];
  }
  const Work all = std::accumulate(used_.begin(), used_.end(), Work{0});
  const Work speeds = std::accumulate(capacity_.begin(), capacity_.end(), Work{0});
  fair_ = static_cast<Ticks>((all << kSpeedBits) / speeds);
}

// Long sequences first: they take the most work along per token.
void PodBalance::leave_full_pods() {
  constexpr Ticks kTooMuch = kIdeal / 50;
  leaving_.clear();
  for (std::int64_t pod = 0; pod < pods_.count(); ++pod) {
    Ticks surplus = -room(pod, fair_);
    if (surplus <= 0) continue;
    auto& members = members_[pod];
    const auto leave = [&](std::int64_t i) {
      leaving_.push_back({-needs_[i], i, pod});
      surplus -= needs_[i];
      used_[pod] -= needs_[i];
    };
    auto stay = members.begin();
    for (const std::int64_t i : members) {
      if (needs_[i] > 0 && needs_[i] <= surplus) {
        leave(i);
      } else {
        *stay++ = i;
      }
    }
    members.erase(stay, members.end());
    if (surplus > kTooMuch && !members.empty()) {  // the smallest mends it
      leave(members.back());
      members.pop_back();
    }
  }
}

void PodBalance::fill_free_pods() {
  const auto more_needed = [&](std::int64_t a, std::int64_t b) {
    return needs_[a] != needs_[b] ? needs_[a] > needs_[b] : a < b;
  };
  std::ranges::sort(leaving_);
  std::vector<std::pair<Ticks, std::int64_t>> heap;  // by room; the lower index wins ties
  for (std::int64_t pod = 0; pod < pods_.count(); ++pod) heap.emplace_back(room(pod, fair_), -pod);
  std::ranges::make_heap(heap);
  std::vector<std::ptrdiff_t> stayed;
  for (const auto& members : members_) stayed.push_back(std::ssize(members));
  const auto take_roomiest = [&] {
    std::ranges::pop_heap(heap);
    const std::int64_t pod = -heap.back().second;
    heap.pop_back();
    return pod;
  };
  const auto put_back = [&](std::int64_t pod) {
    heap.emplace_back(room(pod, fair_), -pod);
    std::ranges::push_heap(heap);
  };
  for (const auto& [less_need, i, from] : leaving_) {
    std::int64_t pod = take_roomiest();
    if (pod == from) {  // left for good
      pod = take_roomiest();
      put_back(from);
    }
    members_[pod].push_back(i);
    used_[pod] -= less_need;
    put_back(pod);
  }
  for (std::int64_t pod = 0; pod < pods_.count(); ++pod) {
    auto& members = members_[pod];
    std::ranges::inplace_merge(members, members.begin() + stayed[pod], more_needed);
  }
}

// With a cap on tokens every pod needs its share of the long sequences, which have few tokens for
// their work: all are dealt out anew, the longest first, home while there is room.
void PodBalance::deal_out(std::span<const std::int64_t> sequences) {
  for (std::int64_t pod = 0; pod < pods_.count(); ++pod) {
    const Work most = Work{problem_.max_tokens} * (pods_.end(pod) - pods_.first(pod));
    most_tokens_[pod] = static_cast<std::int64_t>(std::min<Work>(most, PlanRequest::kNoCap));
    for (const std::int64_t i : members_[pod]) used_[pod] -= needs_[i];
    members_[pod].clear();
  }
  for (const std::int64_t i : sequences) {
    const auto fits = [&](std::int64_t pod) {
      return room(pod, fair_) >= needs_[i] && has_token_room(pod, problem_.lengths[i]);
    };
    std::int64_t best = pods_.of(problem_.homes[i]);
    if (!fits(best)) {
      for (std::int64_t pod = 0; pod < pods_.count(); ++pod) {
        const auto rating = [&](std::int64_t p) {
          return std::pair(has_token_room(p, problem_.lengths[i]), room(p, fair_));
        };
        if (rating(pod) > rating(best)) best = pod;
      }
    }
    members_[best].push_back(i);
    used_[best] += needs_[i];
    tokens_[best] += problem_.lengths[i];
  }
}

// The fullest pod gives to the emptiest ones until that does not help.
void PodBalance::even_out() {
  constexpr int kPartners = 4;
  Levels levels;
  for (std::int64_t pod = 0; pod < pods_.count(); ++pod) levels.emplace(level(pod), pod);
  for (std::int64_t round = 0; round < 8 * pods_.count() && levels.size() > 1; ++round) {
    const auto [highest, fullest] = *levels.rbegin();
    if (highest <= fair_ + kClose) return;
    std::int64_t partner = -1;
    auto candidate = levels.begin();
    for (int tried = 0; tried < kPartners && candidate->second != fullest; ++tried, ++candidate) {
      if (!exchange(fullest, candidate->second)) continue;
      partner = candidate->second;
      break;
    }
    levels.erase(std::prev(levels.end()));
    if (partner < 0) continue;
    levels.erase(candidate);
    levels.emplace(level(fullest), fullest);
    levels.emplace(level(partner), partner);
  }
}

std::vector<std::int64_t>::iterator PodBalance::find(std::int64_t pod, Ticks need) {
  return std::ranges::lower_bound(members_[pod], need, std::ranges::greater(),
                                  [&](std::int64_t i) { return needs_[i]; });
}

// Moves a sequence or swaps two, whichever evens out the two pods best; false if nothing helps.
bool PodBalance::exchange(std::int64_t from, std::int64_t to) {
  const Work surplus = -room(from, level(to));
  const Ticks wanted =
      static_cast<Ticks>(surplus * capacity_[to] / (capacity_[to] + capacity_[from]));
  if (wanted <= kClose) return false;
  Ticks least = wanted - wanted / 4;
  std::int64_t give = -1, take = -1;
  for (const std::int64_t a : members_[from]) {
    const auto consider = [&](std::int64_t b, Ticks given) {
      if (std::abs(given - wanted) >= least) return;
      const std::int64_t more = problem_.lengths[a] - (b < 0 ? 0 : problem_.lengths[b]);
      if (more > 0 ? !has_token_room(to, more) : !has_token_room(from, -more)) return;
      least = std::abs(given - wanted);
      give = a;
      take = b;
    };
    consider(-1, needs_[a]);
    if (needs_[a] <= wanted) continue;
    // The partner whose need is closest to what is too much.
    const auto at = find(to, needs_[a] - wanted);
    if (at != members_[to].end()) consider(*at, needs_[a] - needs_[*at]);
    if (at != members_[to].begin()) consider(*(at - 1), needs_[a] - needs_[*(at - 1)]);
  }
  if (give < 0) return false;
  move(give, from, to);
  if (take >= 0) move(take, to, from);
  return true;
}

void PodBalance::move(std::int64_t i, std::int64_t from, std::int64_t to) {
  std::erase(members_[from], i);
  members_[to].insert(find(to, needs_[i]), i);
  used_[from] -= needs_[i];
  used_[to] += needs_[i];
  tokens_[from] -= problem_.lengths[i];
  tokens_[to] += problem_.lengths[i];
}

}  // namespace knapformer
