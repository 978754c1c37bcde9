// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <tuple>
#include <type_traits>

#include "knapformer/trace/trace.hpp"

// What a trace file holds, once for the writer and the reader. docs/trace.md says it for people.

namespace knapformer::trace {

/// An attribute of the root group.
template <class T>
struct Attribute {
  const char* name;
  T TraceHeader::*member;
};

/// A dataset that holds one member of every row of a step.
template <class Row, class T>
struct Column {
  const char* path;
  const char* units;
  T Row::*member;

  /// As stored in the file, where truth is 0 or 1.
  using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
};

inline constexpr const char* kFormatAttribute = "format";
inline const std::string kFormat = "KnapFormer trace";
inline constexpr const char* kSchemaAttribute = "schema_version";

inline constexpr std::tuple kHeaderAttributes{
    Attribute{"library_version", &TraceHeader::library_version},
    Attribute{"created", &TraceHeader::created},
    Attribute{"ranks", &TraceHeader::ranks},
    Attribute{"group_size", &TraceHeader::group_size},
    Attribute{"topology", &TraceHeader::topology},
    Attribute{"heads", &TraceHeader::heads},
    Attribute{"kv_heads", &TraceHeader::kv_heads},
    Attribute{"d_model", &TraceHeader::d_model},
    Attribute{"layers", &TraceHeader::layers},
    Attribute{"gamma", &TraceHeader::gamma},
    Attribute{"dtype", &TraceHeader::dtype},
    Attribute{"threads", &TraceHeader::threads},
    Attribute{"micro_batches", &TraceHeader::micro_batches},
    Attribute{"loss_mean", &TraceHeader::loss_mean},
    Attribute{"seed", &TraceHeader::seed},
    Attribute{"data", &TraceHeader::data},
    Attribute{"command_line", &TraceHeader::command_line},
};

/// Written last, when everything else of its steps is safe: a step whose index reads as
/// kNotWritten is not complete, and neither are those after it.
inline constexpr Column kIndex{"/step/index", "1", &TraceStep::index};
inline constexpr std::int64_t kNotWritten = -1;

inline constexpr std::tuple kStepColumns{
    Column{"/step/balanced", "1", &TraceStep::balanced},
    Column{"/step/seconds", "s", &TraceStep::seconds},
    Column{"/step/loss", "1", &TraceStep::loss},
};

inline constexpr std::tuple kGroupColumns{
    Column{"/plan/hash", "1", &TraceGroup::plan_hash},
    Column{"/plan/max_over_mean_before", "1", &TraceGroup::max_over_mean_before},
    Column{"/plan/max_over_mean_after", "1", &TraceGroup::max_over_mean_after},
    Column{"/plan/max_over_min_before", "1", &TraceGroup::max_over_min_before},
    Column{"/plan/max_over_min_after", "1", &TraceGroup::max_over_min_after},
    Column{"/plan/lower_bound_gap", "1", &TraceGroup::lower_bound_gap},
    Column{"/plan/moved_tokens", "tokens", &TraceGroup::moved_tokens},
    Column{"/plan/total_tokens", "tokens", &TraceGroup::total_tokens},
    Column{"/plan/seconds", "s", &TraceGroup::plan_seconds},
};

inline constexpr std::tuple kRankColumns{
    Column{"/rank/sequences", "sequences", &TraceRank::sequences},
    Column{"/rank/tokens_before", "tokens", &TraceRank::tokens_before},
    Column{"/rank/tokens_after", "tokens", &TraceRank::tokens_after},
    Column{"/rank/work_before", "work", &TraceRank::work_before},
    Column{"/rank/work_after", "work", &TraceRank::work_after},
    Column{"/rank/plan_seconds", "s", &TraceRank::plan_seconds},
    Column{"/rank/route_seconds", "s", &TraceRank::route_seconds},
    Column{"/rank/exchange_seconds", "s", &TraceRank::exchange_seconds},
    Column{"/rank/compute_seconds", "s", &TraceRank::compute_seconds},
    Column{"/rank/reduce_seconds", "s", &TraceRank::reduce_seconds},
    Column{"/rank/wait_seconds", "s", &TraceRank::wait_seconds},
    Column{"/rank/busy_seconds", "s", &TraceRank::busy_seconds},
    Column{"/rank/hidden_plan_seconds", "s", &TraceRank::hidden_plan_seconds},
    Column{"/rank/hidden_exchange_seconds", "s", &TraceRank::hidden_exchange_seconds},
    Column{"/rank/speed_estimate", "1", &TraceRank::speed_estimate},
    Column{"/rank/bytes_routed", "bytes", &TraceRank::bytes_routed},
    Column{"/rank/bytes_exchanged", "bytes", &TraceRank::bytes_exchanged},
    Column{"/rank/memory_parameters", "bytes", &TraceRank::memory_parameters},
    Column{"/rank/memory_gradients", "bytes", &TraceRank::memory_gradients},
    Column{"/rank/memory_optimizer", "bytes", &TraceRank::memory_optimizer},
    Column{"/rank/memory_activations", "bytes", &TraceRank::memory_activations},
    Column{"/rank/memory_exchange", "bytes", &TraceRank::memory_exchange},
    Column{"/rank/predicted_activations", "bytes", &TraceRank::predicted_activations},
    Column{"/rank/predicted_exchange", "bytes", &TraceRank::predicted_exchange},
};

/// Lengths of all sequences, by step, rank and position; rank r of row s has those from
/// offsets[s * ranks + r] up to offsets[s * ranks + r + 1].
inline constexpr const char* kLengthValues = "/lengths/values";
inline constexpr const char* kLengthOffsets = "/lengths/offsets";

/// Calls `f` with every element of a tuple, in order.
template <class Tuple, class F>
void for_each(const Tuple& tuple, F&& f) {
  std::apply([&](const auto&... element) { (f(element), ...); }, tuple);
}

/// Throws Error unless the file is a trace, of whatever schema.
void check_is_trace(const std::filesystem::path& file);

/// Throws Error unless ranks and groups make sense together.
void check_header(const TraceHeader& header, const std::filesystem::path& file);

}  // namespace knapformer::trace
