// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <algorithm>
#include <knapformer/route/routing.hpp>
#include <utility>

#include "plan/message.hpp"
#include "route/routing_data.hpp"

namespace knapformer {
namespace {

/// Head rows that make a team's work: tens of kilobytes for usual widths.
constexpr std::int64_t kTileRows = 64;

/// Cuts blocks into tiles.
void add_tiles(std::vector<BlockTile>& tiles, const BlockTile& block) {
  const std::int64_t step = std::max<std::int64_t>(1, kTileRows / block.heads);
  for (std::int64_t t = 0; t < block.tokens; t += step) {
    BlockTile tile = block;
    tile.first_token += t;
    tile.tokens = std::min(step, block.tokens - t);
    tile.block_row += t * block.heads;
    tiles.push_back(tile);
  }
}

/// Hands out the memory of lists one after another, and fills it.
struct ListWriter {
  const Device& exec;
  std::byte* next;

  template <class T>
  Kokkos::View<const T*, Device> copy(const std::vector<T>& list) {
    static_assert(sizeof(T) % sizeof(std::int64_t) == 0, "so the next list lies right too");
    const Kokkos::View<T*, Device> view(reinterpret_cast<T*>(next), list.size());
    next += list.size() * sizeof(T);
    Kokkos::deep_copy(exec, view,
                      Kokkos::View<const T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                          list.data(), list.size()));
    return view;
  }
};

std::int64_t rows_of_others(const std::vector<RowRun>& runs, int rank) {
  std::int64_t rows = 0;
  for (const RowRun& run : runs) rows += run.peer == rank ? 0 : run.rows;
  return rows;
}

}  // namespace

Routing::Data::Data(Communicator communicator, Plan the_plan)
    : group(std::move(communicator)), plan(std::move(the_plan)) {
  if (plan.ranks() != group.size()) {
    throw Error(fmt::format("routing: the plan is for {}, the group has {}",
                            plural(plan.ranks(), "rank"), group.size()));
  }
  HostLists lists;
  runs = find_route_runs(plan, group.rank());
  find_attention_runs(lists);
  find_sequence_runs();
  find_sequence_terms(lists);
  upload(lists);
}

/// To memory that is used again when this routing is gone.
void Routing::Data::upload(const HostLists& lists) {
  const Device exec;
  const std::size_t bytes =
      lists.tiles.size() * sizeof(BlockTile) +
      (lists.term_offsets.size() + lists.term_rows.size()) * sizeof(std::int64_t);
  lists_memory_ = group.lasting_scratch(exec, static_cast<std::int64_t>(bytes));
  // The memory is that of a routing before, whose lists work on any instance may still read.
  Kokkos::fence("KnapFormer::index_lists");
  ListWriter writer{exec, lists_memory_.get()};
  blocks.tiles = writer.copy(lists.tiles);
  terms = {writer.copy(lists.term_offsets), writer.copy(lists.term_rows), std::ssize(runs.chunks)};
  exec.fence("KnapFormer::index_lists");  // the host's copies go out of scope
}

/// The next rows of the head buffers are for the sequence of this chunk.
void Routing::Data::add_heads(const LocalChunk& mine, std::vector<BlockTile>& local,
                              std::vector<BlockTile>& remote) {
  const Chunk& own = mine.chunk;
  const std::int64_t length = plan.lengths()[static_cast<std::size_t>(mine.sequence)];
  problems.push_back({head_rows, length, own.heads, own.first_head, mine.sequence});
  for (const Chunk& chunk : plan.chunks(mine.sequence)) {
    // My heads of the chunk's tokens, and the chunk's heads of my tokens.
    const std::int64_t in_heads = head_rows + chunk.first_token * own.heads;
    BlockTile block{mine.first_row, own.tokens, chunk.first_head, chunk.heads, in_heads};
    if (chunk.rank == group.rank()) {
      add_tiles(local, block);
      continue;
    }
    block.block_row = packed_rows;
    add_tiles(remote, block);
    const int peer = static_cast<int>(chunk.rank);
    head_runs.push_back({peer, in_heads, chunk.tokens * own.heads});
    packed_runs.push_back({peer, packed_rows, own.tokens * chunk.heads});
    packed_rows += own.tokens * chunk.heads;
  }
  head_rows += length * own.heads;
}

void Routing::Data::find_attention_runs(HostLists& lists) {
  std::vector<BlockTile> local;
  std::vector<BlockTile> remote;
  const auto is_split = [&](const LocalChunk& mine) {
    return plan.chunks(mine.sequence).size() > 1;
  };
  for (const LocalChunk& mine : runs.chunks) {
    if (!is_split(mine)) add_heads(mine, local, remote);
  }
  unsplit_head_rows = head_rows;
  for (const LocalChunk& mine : runs.chunks) {
    if (is_split(mine)) add_heads(mine, local, remote);
  }
  blocks.local = static_cast<std::int64_t>(local.size());
  blocks.all_heads = plan.heads();
  blocks.local_rows = runs.routed_rows * plan.heads() - packed_rows;
  blocks.remote_rows = packed_rows;
  local.insert(local.end(), remote.begin(), remote.end());
  lists.tiles = std::move(local);
}

void Routing::Data::find_sequence_runs() {
  const int me = group.rank();
  RunList sends(sequence_runs, plan.ranks());
  RunList receives(chunk_runs, plan.ranks());
  std::vector<std::int64_t> next_home(static_cast<std::size_t>(plan.ranks()), 0);
  std::vector<std::int64_t> next_chunk(next_home);
  for (std::int64_t s = 0; s < plan.sequences(); ++s) {
    const std::int64_t home = plan.homes()[static_cast<std::size_t>(s)];
    const std::int64_t home_row = next_home[static_cast<std::size_t>(home)]++;
    for (const Chunk& chunk : plan.chunks(s)) {
      const std::int64_t chunk_row = next_chunk[static_cast<std::size_t>(chunk.rank)]++;
      if (home == me) sends.add(chunk.rank, home_row, chunk_row, 1);
      if (chunk.rank == me) receives.add(home, chunk_row, home_row, 1);
    }
  }
  home_sequences = next_home[static_cast<std::size_t>(me)];
}

/// The plan orders sequences by home, so the chunks that a rank has of one home lie next to each
/// other, and their rows travel home as one range.
void Routing::Data::find_sequence_terms(HostLists& lists) {
  const int me = group.rank();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(plan.ranks()), 0);
  for (const RowRun& run : sequence_runs) counts[static_cast<std::size_t>(run.peer)] += run.rows;
  std::vector<std::int64_t> next(counts.size(), 0);  // row of the next term from each rank
  for (std::size_t r = 0; r < counts.size(); ++r) {
    if (static_cast<int>(r) == me || counts[r] == 0) continue;
    next[r] = std::ssize(runs.chunks) + summand_rows;
    summand_runs.push_back({static_cast<int>(r), summand_rows, counts[r]});
    summand_rows += counts[r];
  }
  for (auto run = chunk_runs.begin(); run != chunk_runs.end();) {
    RowRun all = *run;
    while (++run != chunk_runs.end() && run->peer == all.peer) all.rows += run->rows;
    if (all.peer == me) {
      next[static_cast<std::size_t>(me)] = all.first_row;
    } else {
      return_runs.push_back(all);
    }
  }
  for (std::int64_t s = 0; s < plan.sequences(); ++s) {
    if (plan.homes()[static_cast<std::size_t>(s)] != me) continue;
    for (const Chunk& chunk : plan.chunks(s)) {
      lists.term_rows.push_back(next[static_cast<std::size_t>(chunk.rank)]++);
    }
    lists.term_offsets.push_back(std::ssize(lists.term_rows));
  }
}

Routing::Routing(Communicator group, Plan plan)
    : data_(std::make_shared<const Data>(std::move(group), std::move(plan))) {}

const Plan& Routing::plan() const { return data_->plan; }
const Communicator& Routing::group() const { return data_->group; }
std::int64_t Routing::home_rows() const { return data_->runs.home_rows; }
std::int64_t Routing::routed_rows() const { return data_->runs.routed_rows; }
std::int64_t Routing::head_rows() const { return data_->head_rows; }
std::int64_t Routing::unsplit_head_rows() const { return data_->unsplit_head_rows; }
std::int64_t Routing::home_sequences() const { return data_->home_sequences; }
std::span<const LocalChunk> Routing::chunks() const { return data_->runs.chunks; }
std::span<const AttentionProblem> Routing::attention_problems() const { return data_->problems; }

std::int64_t Routing::routed_away_rows() const {
  return rows_of_others(data_->runs.home, data_->group.rank());
}
std::int64_t Routing::routed_back_rows() const {
  return rows_of_others(data_->runs.routed, data_->group.rank());
}
std::int64_t Routing::attention_rows_sent() const { return data_->packed_rows; }
std::int64_t Routing::attention_rows_returned() const {
  return rows_of_others(data_->head_runs, data_->group.rank());
}
std::int64_t Routing::sequence_rows_sent() const { return data_->summand_rows; }
std::int64_t Routing::sequence_rows_returned() const {
  return rows_of_others(data_->return_runs, data_->group.rank());
}

}  // namespace knapformer
