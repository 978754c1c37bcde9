// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/route/routing.hpp>
#include <vector>

#include "route/block_copy.hpp"
#include "route/row_runs.hpp"
#include "route/sequence_sum.hpp"

namespace knapformer {

/// One call of an operation, checked.
struct MoveArguments {
  Device exec;
  std::span<const ConstRows> from;
  std::span<const Rows> to;
  std::shared_ptr<void> keep_alive;
  std::uint64_t fingerprint = 0;
};

/// The index lists of a routing. Runs with the same peer are in the plan's order of sequences on
/// both sides, with the same boundaries.
struct Routing::Data {
  Data(Communicator communicator, Plan the_plan);

  Request move_rows(const MoveArguments& move, const std::vector<RowRun>& send_runs,
                    const std::vector<RowRun>& receive_runs) const;
  Request split_heads(const MoveArguments& move) const;
  Request join_heads(const MoveArguments& move) const;
  Request sum_at_home(const MoveArguments& move) const;

  Communicator group;
  Plan plan;
  RouteRuns runs;
  std::int64_t head_rows = 0;
  std::int64_t unsplit_head_rows = 0;
  std::int64_t packed_rows = 0;  ///< head rows that pre-attention sends away
  std::int64_t home_sequences = 0;
  std::int64_t summand_rows = 0;  ///< rows of home sequences that other ranks send to be summed
  std::vector<AttentionProblem> problems;
  std::vector<RowRun> head_runs;    ///< head rows, by the rank that has their tokens; others only
  std::vector<RowRun> packed_runs;  ///< packed rows, by the rank that has their heads; others only
  BlockTiles blocks;
  std::vector<RowRun> sequence_runs;  ///< home sequences, by the ranks of their bags; this one too
  std::vector<RowRun> chunk_runs;     ///< chunks, by their home; this one too
  std::vector<RowRun> summand_runs;   ///< summands, by the rank that has the chunk; others only
  std::vector<RowRun> return_runs;    ///< chunks, by their home; others only
  SequenceTerms terms;

 private:
  /// What kernels read, on its way to the device.
  struct HostLists {
    std::vector<BlockTile> tiles;
    std::vector<std::int64_t> term_offsets{0};
    std::vector<std::int64_t> term_rows;
  };

  void find_attention_runs(HostLists& lists);
  void add_heads(const LocalChunk& mine, std::vector<BlockTile>& local,
                 std::vector<BlockTile>& remote);
  void find_sequence_runs();
  void find_sequence_terms(HostLists& lists);
  void upload(const HostLists& lists);

  std::shared_ptr<std::byte> lists_memory_;
};

}  // namespace knapformer
