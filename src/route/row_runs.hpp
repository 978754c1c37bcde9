// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/plan/plan.hpp>
#include <knapformer/route/routing.hpp>
#include <vector>

namespace knapformer {

/// A contiguous run of rows on this rank that travels as one range to or from a peer.
struct RowRun {
  int peer = 0;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
};

/// Collects runs, joining one to the one before it with the same peer where both ranks have the
/// rows of the two next to each other. Both come to the same runs, since both see both sides.
class RunList {
 public:
  RunList(std::vector<RowRun>& runs, std::int64_t ranks)
      : runs_(runs), last_(static_cast<std::size_t>(ranks)) {}

  void add(std::int64_t peer, std::int64_t row, std::int64_t peer_row, std::int64_t rows) {
    Last& last = last_[static_cast<std::size_t>(peer)];
    if (last.end == row && last.peer_end == peer_row) {
      runs_[last.index].rows += rows;
    } else {
      last.index = runs_.size();
      runs_.push_back({static_cast<int>(peer), row, rows});
    }
    last.end = row + rows;
    last.peer_end = peer_row + rows;
  }

 private:
  struct Last {
    std::size_t index = 0;
    std::int64_t end = -1;
    std::int64_t peer_end = -1;
  };
  std::vector<RowRun>& runs_;
  std::vector<Last> last_;
};

/// What a rank computes, and how rows get there from home.
struct RouteRuns {
  std::vector<LocalChunk> chunks;
  std::vector<RowRun> home;    ///< home rows, by the rank that computes them; this one too
  std::vector<RowRun> routed;  ///< routed rows, by their home; this one too
  std::int64_t home_rows = 0;
  std::int64_t routed_rows = 0;
};

/// As `rank` sees them. Runs with the same peer are in the plan's order of sequences.
RouteRuns find_route_runs(const Plan& plan, std::int64_t rank);

}  // namespace knapformer
