// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/elastic/pod_filling.hpp"

#include <algorithm>

namespace knapformer {

std::int64_t PodFilling::run(std::int64_t pod, std::span<const std::int64_t> sequences, Ticks time,
                             Long when) {
  time_ = time;
  refused_ = 0;
  for (const std::int64_t i : sequences) times_.prefetch_sequence(i);
  for (const std::int64_t i : sequences) times_.prefetch_home(i, pods_.first(pod));
  sort_out(pod, sequences);
  if (when == Long::kFirst) {
    place_long(pod);
    place_short(pod);
  } else {
    spread_short(pod);
    place_long(pod);
  }
  return refused_;
}

// The most that any rank of a pod does in time.
Ticks PodFilling::most_in_time(std::int64_t pod) const {
  Ticks most = 0;
  for (std::int64_t rank = pods_.first(pod); rank < pods_.end(pod); ++rank) {
    most = std::max(most, model_.work_within(rank, time_));
  }
  return most;
}

void PodFilling::sort_out(std::int64_t pod, std::span<const std::int64_t> sequences) {
  long_.clear();
  short_.clear();
  home_work_.assign(pods_.end(pod) - pods_.first(pod), 0);
  const Ticks most = most_in_time(pod);
  for (const std::int64_t i : sequences) {
    const std::int64_t home = problem_.homes[i];
    const bool is_long = model_.whole(i) > most;
    (is_long ? long_ : short_).push_back(i);
    if (pods_.contains(pod, home) && !is_long)
      home_work_[home - pods_.first(pod)] += model_.whole(i);
  }
}

bool PodFilling::stays_home(std::int64_t i, std::int64_t pod) const {
  const std::int64_t home = problem_.homes[i];
  return pods_.contains(pod, home) && sharing_.with_whole(i, home) <= time_ &&
         sharing_.fits(i, home);
}

void PodFilling::place_long(std::int64_t pod) {
  for (const std::int64_t i : long_) refused_ += !place_split(i, pod);
}

void PodFilling::place_short(std::int64_t pod) {
  away_.clear();
  for (const std::int64_t i : short_) {
    if (stays_home(i, pod)) {
      times_.place_whole(i, problem_.homes[i]);
    } else {
      away_.push_back(i);
    }
  }
  for (const std::int64_t i : away_) refused_ += !place_whole(i, pod) && !place_split(i, pod);
}

// Each to the emptiest rank, or home where that is no fuller than the average will be.
void PodFilling::spread_short(std::int64_t pod) {
  const Ticks time = time_;
  Work work = 0, capacity = 1;
  for (const std::int64_t i : short_) work += model_.whole(i);
  for (std::int64_t rank = pods_.first(pod); rank < pods_.end(pod); ++rank) {
    capacity += model_.work_within(rank, kIdeal);
  }
  time_ = static_cast<Ticks>(work * kIdeal / capacity);
  for (const std::int64_t i : short_) {
    std::int64_t best = -1;
    for (std::int64_t rank = pods_.first(pod); rank < pods_.end(pod); ++rank) {
      if (!sharing_.fits(i, rank)) continue;
      if (best < 0 || sharing_.with_whole(i, rank) < sharing_.with_whole(i, best)) best = rank;
    }
    if (stays_home(i, pod)) best = problem_.homes[i];
    if (best >= 0) {
      times_.place_whole(i, best);
    } else {
      refused_ += !place_split(i, pod);
    }
  }
  time_ = time;
}

// The fullest rank that still has room.
bool PodFilling::place_whole(std::int64_t i, std::int64_t pod) {
  std::int64_t best = -1;
  for (std::int64_t rank = pods_.first(pod); rank < pods_.end(pod); ++rank) {
    if (sharing_.with_whole(i, rank) > time_ || !sharing_.fits(i, rank)) continue;
    if (best < 0 || times_.time(rank) > times_.time(best)) best = rank;
  }
  if (best >= 0) times_.place_whole(i, best);
  return best >= 0;
}

// As few ranks as can hold it, the emptiest; the last, which takes what is left, is the fullest
// that will do, so that emptier ones remain for others.
bool PodFilling::place_split(std::int64_t i, std::int64_t pod) {
  emptiest_.clear();
  for (std::int64_t rank = pods_.first(pod); rank < pods_.end(pod); ++rank) {
    emptiest_.push_back({-free_work(rank), home_work_[rank - pods_.first(pod)], rank});
  }
  std::ranges::sort(emptiest_);
  ranks_.resize(emptiest_.size());
  std::ranges::transform(emptiest_, ranks_.begin(), &Emptiness::rank);
  const std::int64_t most = std::min<std::int64_t>(sharing_.most_ranks(i), std::ssize(ranks_));
  const Ticks whole = model_.whole(i);
  Ticks free = 0;
  for (std::int64_t count = 1; count <= most; ++count) {
    free += std::max<Ticks>(-emptiest_[count - 1].less_free, 0);
    if (free < whole) continue;  // even if they need not talk
    std::int64_t others = 0;
    for (std::int64_t k = 0; k + 1 < count; ++k) {
      others += sharing_.part_until(i, ranks_[k], count, time_);
    }
    const auto holds = [&](std::int64_t last) {
      return others + sharing_.part_until(i, ranks_[last], count, time_) >= Sharing::kWhole;
    };
    std::int64_t last = count - 1;
    if (!holds(last)) continue;
    while (last + 1 < std::ssize(ranks_) && holds(last + 1)) ++last;
    std::swap(ranks_[count - 1], ranks_[last]);
    const auto shares = sharing_.fill(i, std::span(ranks_).first(count), time_);
    if (shares.empty()) break;
    times_.place(i, shares);
    return true;
  }
  return place_where_least_harm(i, std::span(ranks_).first(most));
}

// Of the first ranks so many that the excess is least. More ranks first spare time and then talk
// more than they spare: once one more is no better, no more are tried.
bool PodFilling::place_where_least_harm(std::int64_t i, std::span<const std::int64_t> ranks) {
  best_.clear();
  Work least = 0;
  for (std::size_t count = 1; count <= ranks.size(); ++count) {
    const auto shares = sharing_.level(i, ranks.first(count));
    if (shares.empty()) continue;
    const Work excess = times_.excess_with(i, shares);
    if (!best_.empty() && excess >= least) break;
    best_.assign(shares.begin(), shares.end());
    least = excess;
  }
  if (best_.empty()) return false;
  times_.place(i, best_);
  return true;
}

}  // namespace knapformer
