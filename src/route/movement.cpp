// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <array>
#include <functional>
#include <knapformer/route/routing.hpp>
#include <memory_resource>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/message.hpp"
#include "route/routing_data.hpp"

namespace knapformer {
namespace {

/// One side of a movement, as the views must be.
struct Side {
  const char* rows_name;
  std::int64_t rows;
  std::int64_t items;
};

struct Sides {
  const std::string& region;  ///< the name of the operation, with our prefix
  Side from;
  Side to;
  bool sums = false;
};

/// The names of the operations, with our prefix.
const std::string& region_of(Movement movement) {
  static const std::array<std::string, 6> kRegions = {
      "KnapFormer::route",           "KnapFormer::reverse_route",
      "KnapFormer::pre_attention",   "KnapFormer::post_attention",
      "KnapFormer::route_sequences", "KnapFormer::route_sequences_adjoint"};
  return kRegions.at(static_cast<std::size_t>(movement));
}

Sides sides_of(Movement movement, const Routing& routing) {
  const std::string& region = region_of(movement);
  const Side home{"home rows", routing.home_rows(), 1};
  const Side routed{"routed rows", routing.routed_rows(), 1};
  const Side tokens{"routed rows", routing.routed_rows(), routing.plan().heads()};
  const Side heads{"head rows", routing.head_rows(), 1};
  const Side sequences{"home sequences", routing.home_sequences(), 1};
  const Side chunks{"chunks", std::ssize(routing.chunks()), 1};
  switch (movement) {
    case Movement::kRoute:
      return {region, home, routed};
    case Movement::kReverseRoute:
      return {region, routed, home};
    case Movement::kPreAttention:
      return {region, tokens, heads};
    case Movement::kPostAttention:
      return {region, heads, tokens};
    case Movement::kRouteSequences:
      return {region, sequences, chunks};
    case Movement::kRouteSequencesAdjoint:
      return {region, chunks, sequences, true};
  }
  throw Error("routing: unknown movement");
}

std::string_view name_of(const Sides& sides) {
  return std::string_view(sides.region).substr(std::string_view("KnapFormer::").size());
}

/// What is wrong with a view; empty when nothing is.
std::string complaint_about(const ConstRows& view, const Side& side, const char* what,
                            std::size_t index) {
  if (!view.contiguous) {
    return fmt::format("{} {} is not contiguous; copy it into a view of its own first", what,
                       index);
  }
  if (view.rows != side.rows) {
    return fmt::format("{} {} has {}; its first extent must be {}, this rank's {}", what, index,
                       plural(view.rows, "row"), side.rows, side.rows_name);
  }
  if (view.items != side.items) {
    return fmt::format("{} {} has {}, the plan has {}", what, index, plural(view.items, "head"),
                       side.items);
  }
  return {};
}

std::int64_t bytes_of(const ConstRows& view) { return view.rows * view.items * view.item_bytes; }

bool overlap(const ConstRows& a, const ConstRows& b) {
  const std::less<const std::byte*> before;
  return bytes_of(a) > 0 && bytes_of(b) > 0 && before(a.data, b.data + bytes_of(b)) &&
         before(b.data, a.data + bytes_of(a));
}

/// What keeps rows from being summed; empty when nothing does.
std::string complaint_about_sum(const ConstRows& view, const char* what, std::size_t index) {
  const std::size_t size = element_bytes(view.element);
  if (size == 0) return fmt::format("{} {} is neither float, double nor bfloat16", what, index);
  if (static_cast<std::size_t>(view.item_bytes) % size != 0 ||
      reinterpret_cast<std::uintptr_t>(view.data) % size != 0) {
    return fmt::format("{} {} has rows of {} at {}, which do not hold elements of {}", what, index,
                       plural(view.item_bytes, "byte"), static_cast<const void*>(view.data),
                       plural(static_cast<std::int64_t>(size), "byte"));
  }
  return {};
}

std::string complaint_about(const Sides& sides, std::span<const ConstRows> from,
                            std::span<const Rows> to) {
  if (from.size() != to.size()) {
    return plural(std::ssize(from), "input") + " and " + plural(std::ssize(to), "output");
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (auto text = complaint_about(from[i], sides.from, "input", i); !text.empty()) return text;
    if (auto text = complaint_about(to[i], sides.to, "output", i); !text.empty()) return text;
    if (from[i].item_bytes != to[i].item_bytes) {
      return fmt::format("output {} has rows of {}, input {} of {}", i,
                         plural(to[i].item_bytes, "byte"), i, from[i].item_bytes);
    }
    if (from[i].element != to[i].element) {
      return fmt::format("output {0} and input {0} have elements of different types", i);
    }
    if (sides.sums) {
      if (auto text = complaint_about_sum(from[i], "input", i); !text.empty()) return text;
      if (auto text = complaint_about_sum(to[i], "output", i); !text.empty()) return text;
    }
    for (std::size_t j = 0; j < from.size(); ++j) {
      if (overlap(to[i], from[j])) return fmt::format("output {} overlaps input {}", i, j);
      if (j < i && overlap(to[i], to[j])) return fmt::format("output {} overlaps output {}", i, j);
    }
  }
  return {};
}

/// Ranks whose plans, operations, types or widths differ must not take each other's bytes.
std::uint64_t fingerprint(const Plan& plan, Movement movement, std::span<const ConstRows> views) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  std::uint64_t value = (plan.hash() ^ static_cast<std::uint64_t>(movement)) * kOdd;
  for (const ConstRows& view : views) {
    value = (value ^ static_cast<std::uint64_t>(view.element)) * kOdd;
    value = (value ^ static_cast<std::uint64_t>(view.item_bytes)) * kOdd;
  }
  return value;
}

template <class Range, class View>
void add_ranges(std::pmr::vector<Range>& ranges, const std::vector<RowRun>& runs,
                const View& view) {
  for (const RowRun& run : runs) {
    ranges.push_back(
        {run.peer, view.data + run.first_row * view.item_bytes, run.rows * view.item_bytes});
  }
}

/// One buffer for the packed rows of all views, each at an address good for any word.
struct PackedRows {
  PackedRows(const Communicator& group, const Device& exec, std::int64_t rows,
             std::span<const ConstRows> views)
      : parts(group.host_memory().get()) {
    constexpr std::int64_t kAlign = 256;
    const auto bytes = [rows](const ConstRows& view) {
      return (rows * view.item_bytes + kAlign - 1) / kAlign * kAlign;
    };
    std::int64_t total = 0;
    for (const ConstRows& view : views) total += bytes(view);
    memory = group.scratch(exec, total);
    std::byte* next = memory.get();
    for (const ConstRows& view : views) {
      parts.push_back({next, rows, 1, view.item_bytes, true, view.element});
      next += bytes(view);
    }
  }
  std::shared_ptr<std::byte> memory;
  std::pmr::vector<Rows> parts;  ///< one for each view
};

/// The ranges of one exchange, in memory that is used again.
struct Ranges {
  explicit Ranges(const Communicator& group)
      : sends(group.host_memory().get()), receives(group.host_memory().get()) {}
  std::pmr::vector<SendRange> sends;
  std::pmr::vector<ReceiveRange> receives;
};

/// What is left to do when all bytes have arrived, and the memory that it needs.
template <class Work>
struct Rest {
  std::shared_ptr<void> of_caller;
  std::shared_ptr<std::byte> packed;
  Work work;
};

/// The closure holds a pointer alone, for which std::function allocates nothing.
template <class Work>
Request start_exchange(const Communicator& group, const MoveArguments& move, const Ranges& ranges,
                       std::shared_ptr<std::byte> packed, Work work) {
  auto rest = make_recycled<Rest<Work>>(group.host_memory(), move.keep_alive, std::move(packed),
                                        std::move(work));
  const auto then = [all = rest.get()] { all->work(); };
  return group.start_exchange(move.exec, ranges.sends, ranges.receives, move.fingerprint,
                              std::move(rest), then);
}

template <class View>
std::pmr::vector<View> copy_of(std::span<const View> views, const Communicator& group) {
  return {views.begin(), views.end(), group.host_memory().get()};
}

}  // namespace

/// A chunk is a contiguous run of rows at both ends, so nothing is packed here.
Request Routing::Data::move_rows(const MoveArguments& move, const std::vector<RowRun>& send_runs,
                                 const std::vector<RowRun>& receive_runs) const {
  Ranges ranges(group);
  for (const ConstRows& view : move.from) add_ranges(ranges.sends, send_runs, view);
  for (const Rows& view : move.to) add_ranges(ranges.receives, receive_runs, view);
  return group.start_exchange(move.exec, ranges.sends, ranges.receives, move.fingerprint,
                              move.keep_alive);
}

/// Blocks of heads are strided among the tokens, so they are packed. They arrive in place. Blocks
/// that stay here are copied while the others travel.
Request Routing::Data::split_heads(const MoveArguments& move) const {
  PackedRows packed(group, move.exec, packed_rows, move.from);
  Ranges ranges(group);
  for (std::size_t i = 0; i < move.from.size(); ++i) {
    const ConstRows& tokens = move.from[i];
    pack_blocks(move.exec, blocks, BlockPlace::kRemote, tokens.item_bytes, tokens.data,
                packed.parts[i].data);
    add_ranges(ranges.sends, packed_runs, packed.parts[i]);
    add_ranges(ranges.receives, head_runs, move.to[i]);
  }
  Request request =
      start_exchange(group, move, ranges, std::move(packed.memory), [] {});  // nothing is left
  for (std::size_t i = 0; i < move.from.size(); ++i) {
    pack_blocks(move.exec, blocks, BlockPlace::kLocal, move.from[i].item_bytes, move.from[i].data,
                move.to[i].data);
  }
  return request;
}

/// The way back: blocks are sent from place, and unpacked when all of them have arrived.
Request Routing::Data::join_heads(const MoveArguments& move) const {
  PackedRows packed(group, move.exec, packed_rows, move.from);
  Ranges ranges(group);
  for (std::size_t i = 0; i < move.from.size(); ++i) {
    add_ranges(ranges.sends, head_runs, move.from[i]);
    add_ranges(ranges.receives, packed_runs, packed.parts[i]);
  }
  auto unpack = [exec = move.exec, tiles = blocks, parts = std::move(packed.parts),
                 to = copy_of(move.to, group)] {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      unpack_blocks(exec, tiles, BlockPlace::kRemote, parts[i].item_bytes, parts[i].data,
                    to[i].data);
    }
  };
  Request request =
      start_exchange(group, move, ranges, std::move(packed.memory), std::move(unpack));
  for (std::size_t i = 0; i < move.from.size(); ++i) {
    unpack_blocks(move.exec, blocks, BlockPlace::kLocal, move.from[i].item_bytes, move.from[i].data,
                  move.to[i].data);
  }
  return request;
}

/// Rows of other ranks arrive in a buffer. They are summed when all are there, with those of this
/// rank from their place.
Request Routing::Data::sum_at_home(const MoveArguments& move) const {
  PackedRows summands(group, move.exec, summand_rows, move.from);
  Ranges ranges(group);
  for (std::size_t i = 0; i < move.from.size(); ++i) {
    add_ranges(ranges.sends, return_runs, move.from[i]);
    add_ranges(ranges.receives, summand_runs, summands.parts[i]);
  }
  auto sum = [exec = move.exec, list = terms, from = copy_of(move.from, group),
              arrived = std::move(summands.parts), to = copy_of(move.to, group)] {
    for (std::size_t i = 0; i < to.size(); ++i) sum_terms(exec, list, from[i], arrived[i], to[i]);
  };
  return start_exchange(group, move, ranges, std::move(summands.memory), std::move(sum));
}

void wait_for(Request& request, Movement movement) {
  const Kokkos::Profiling::ScopedRegion region(region_of(movement));
  request.wait();
}

std::int64_t Routing::output_rows(Movement movement) const {
  return sides_of(movement, *this).to.rows;
}

Request Routing::start(const Device& exec, Movement movement, std::span<const ConstRows> from,
                       std::span<const Rows> to, std::shared_ptr<void> keep_alive) const {
  const Sides sides = sides_of(movement, *this);
  if (const auto text = complaint_about(sides, from, to); !text.empty()) {
    group().fail(fmt::format("{}: {}", name_of(sides), text));
  }
  Kokkos::Profiling::ScopedRegion region(sides.region);
  const MoveArguments move{exec, from, to, std::move(keep_alive),
                           fingerprint(plan(), movement, from)};
  return group().guard([&] {  // memory may be short on this rank alone
    switch (movement) {
      case Movement::kRoute:
        return data_->move_rows(move, data_->runs.home, data_->runs.routed);
      case Movement::kReverseRoute:
        return data_->move_rows(move, data_->runs.routed, data_->runs.home);
      case Movement::kPreAttention:
        return data_->split_heads(move);
      case Movement::kPostAttention:
        return data_->join_heads(move);
      case Movement::kRouteSequences:
        return data_->move_rows(move, data_->sequence_runs, data_->chunk_runs);
      case Movement::kRouteSequencesAdjoint:
        return data_->sum_at_home(move);
    }
    throw Error("routing: unknown movement");
  });
}

}  // namespace knapformer
