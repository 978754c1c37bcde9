// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "knapformer/trace/trace_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "knapformer/plan/error.hpp"
#include "plan/message.hpp"
#include "trace/dataset.hpp"
#include "trace/hdf5.hpp"
#include "trace/schema.hpp"

namespace knapformer {
namespace {

namespace fs = std::filesystem;
using hdf5::check;
using hdf5::Dataset;
using hdf5::Handle;
using Clock = std::chrono::steady_clock;

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

/// Throws Error unless a trace may be put there.
void check_target(const fs::path& path) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(fmt::format("cannot create trace {}: {}", path.string(), reason));
  };
  std::error_code status;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (path.filename().empty()) refuse("it names no file");
  if (!fs::exists(folder, status)) refuse(fmt::format("there is no folder {}", folder.string()));
  if (!fs::is_directory(folder, status)) refuse(fmt::format("{} is no folder", folder.string()));
  if (!fs::exists(path, status)) return;
  if (fs::is_directory(path, status)) refuse("it is a folder; name a file in it");
  if (!fs::is_regular_file(path, status)) refuse("it exists and is not a regular file");
  try {
    trace::check_is_trace(path);
  } catch (const Error& error) {
    refuse(
        fmt::format("it exists and is not a trace that may be replaced ({}); remove it or choose "
                    "another name",
                    error.what()));
  }
}

Handle create_file(const fs::path& path) {
  constexpr std::string_view kAction = "cannot create";
  const Handle access(check(H5Pcreate(H5P_FILE_ACCESS), kAction, path), H5Pclose);
  // The oldest format with single-writer/multiple-reader mode, which every newer HDF5 reads.
  check(H5Pset_fapl_sec2(access), kAction, path);  // hdf5::abandon() relies on it
  check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), kAction, path);
  // A kill can tear a write in two where it crosses from one page of memory to the next, and HDF5's
  // checksums then refuse the whole file. Paged file space keeps its small structures within pages.
  constexpr hsize_t kPageBytes = 4096;
  const Handle creation(check(H5Pcreate(H5P_FILE_CREATE), kAction, path), H5Pclose);
  check(H5Pset_file_space_strategy(creation, H5F_FSPACE_STRATEGY_PAGE, false, 1), kAction, path);
  check(H5Pset_file_space_page_size(creation, kPageBytes), kAction, path);
  return {check(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access), kAction, path), H5Fclose};
}

void write_header(hid_t file, const TraceHeader& header, const fs::path& path) {
  hdf5::write_attribute(file, trace::kFormatAttribute, trace::kFormat, path);
  hdf5::write_attribute(file, trace::kSchemaAttribute, kTraceSchemaVersion, path);
  trace::for_each(trace::kHeaderAttributes, [&](const auto& attribute) {
    hdf5::write_attribute(file, attribute.name, header.*attribute.member, path);
  });
}

template <class Columns>
std::vector<Dataset> create_columns(hid_t file, const Columns& columns, std::int64_t width,
                                    const fs::path& path) {
  constexpr std::int64_t kChunkElements = 8192;
  const std::int64_t rows =
      std::clamp<std::int64_t>(kChunkElements / std::max<std::int64_t>(width, 1), 1, 256);
  std::vector<Dataset> datasets;
  trace::for_each(columns, [&](const auto& column) {
    using Stored = typename std::remove_cvref_t<decltype(column)>::Stored;
    datasets.push_back(
        Dataset::create(file, column.path, column.units, {width, rows}, Stored{}, path));
  });
  return datasets;
}

/// Adds one row to each of `datasets`: the members that `columns` names, of every element of
/// `rows`.
template <class Columns, class Row>
void append_columns(std::vector<Dataset>& datasets, const Columns& columns,
                    std::span<const Row> rows) {
  auto dataset = datasets.begin();
  trace::for_each(columns, [&](const auto& column) {
    std::vector<typename std::remove_cvref_t<decltype(column)>::Stored> values;
    values.reserve(rows.size());
    for (const Row& row : rows) values.push_back(row.*column.member);
    (dataset++)->append(std::span<const typename decltype(values)::value_type>(values));
  });
}

}  // namespace

struct TraceWriter::File {
  File(const fs::path& target, TraceHeader run, const TraceFlush& when);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  void lay_out();
  void check_sizes(const TraceStep& step) const;
  void append(const TraceStep& step);
  void flush();
  void close();
  void close_datasets();

  /// Runs `work`; once it has failed, nothing more is written.
  template <class Work>
  void guarded(Work&& work);

  fs::path path;
  TraceHeader header;
  TraceFlush options;
  Handle file;
  Dataset index;
  std::vector<Dataset> step_columns;
  std::vector<Dataset> group_columns;
  std::vector<Dataset> rank_columns;
  Dataset length_offsets;
  Dataset length_values;
  std::vector<std::int64_t> waiting;  // indices of the steps appended since the last flush
  Clock::time_point flushed = Clock::now();
  bool failed = false;
};

TraceWriter::File::File(const fs::path& target, TraceHeader run, const TraceFlush& when)
    : path(target), header(std::move(run)), options(when) {
  check_target(path);
  // Until readers may open it, under another name: a kill here leaves no file that is no trace.
  const fs::path partial = path.string() + ".partial";
  file = create_file(partial);
  std::error_code status;
  try {
    guarded([&] { lay_out(); });
    fs::rename(partial, path, status);
    if (status) {
      throw Error(fmt::format("cannot rename {} to {}: {}", partial.string(), path.string(),
                              status.message()));
    }
  } catch (...) {
    fs::remove(partial, status);
    throw;
  }
}

void TraceWriter::File::lay_out() {
  write_header(file, header, path);
  for (const char* group : {"/step", "/plan", "/rank", "/lengths"}) {
    const Handle made(check(H5Gcreate2(file, group, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                            "cannot create a group in", path),
                      H5Gclose);
  }
  index = Dataset::create(file, trace::kIndex.path, trace::kIndex.units, {0, 256},
                          trace::kNotWritten, path);
  step_columns = create_columns(file, trace::kStepColumns, 0, path);
  group_columns = create_columns(file, trace::kGroupColumns, header.groups(), path);
  rank_columns = create_columns(file, trace::kRankColumns, header.ranks, path);
  length_offsets =
      Dataset::create(file, trace::kLengthOffsets, "1", {0, 1024}, std::int64_t{0}, path);
  length_values =
      Dataset::create(file, trace::kLengthValues, "tokens", {0, 4096}, std::int64_t{0}, path);
  check(H5Fstart_swmr_write(file), "cannot share with readers", path);
  const std::int64_t zero = 0;
  length_offsets.append(std::span(&zero, 1));
  flush();
}

void TraceWriter::File::check_sizes(const TraceStep& step) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("trace {}, step {}: {}", path.string(), step.index, what));
  };
  if (step.index < 0) refuse("the index is negative");
  const auto need = [&](std::size_t size, std::int64_t expected, const char* what) {
    if (std::cmp_not_equal(size, expected)) {
      refuse(fmt::format("{} {} where the header says {}", size, what, expected));
    }
  };
  need(step.groups.size(), header.groups(), "groups");
  need(step.ranks.size(), header.ranks, "ranks");
  need(step.lengths.size(), header.ranks, "ranks with lengths");
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    if (std::cmp_not_equal(step.lengths[r].size(), step.ranks[r].sequences)) {
      refuse(fmt::format("rank {} has {} and {}", r, plural(step.ranks[r].sequences, "sequence"),
                         plural(std::ssize(step.lengths[r]), "length")));
    }
  }
}

void TraceWriter::File::append(const TraceStep& step) {
  append_columns(step_columns, trace::kStepColumns, std::span(&step, 1));
  append_columns(group_columns, trace::kGroupColumns, std::span(step.groups));
  append_columns(rank_columns, trace::kRankColumns, std::span(step.ranks));
  std::vector<std::int64_t> values;
  std::vector<std::int64_t> offsets;
  for (const std::vector<std::int64_t>& lengths : step.lengths) {
    values.insert(values.end(), lengths.begin(), lengths.end());
    offsets.push_back(length_values.rows() + static_cast<std::int64_t>(values.size()));
  }
  length_values.append(std::span<const std::int64_t>(values));
  length_offsets.append(std::span<const std::int64_t>(offsets));
  waiting.push_back(step.index);
  const std::chrono::duration<double> age = Clock::now() - flushed;
  if (std::cmp_greater_equal(waiting.size(), options.steps) || age.count() >= options.seconds) {
    flush();
  }
}

void TraceWriter::File::flush() {
  // A reader takes a step for complete when it has an index, so the rest must reach the file first.
  check(H5Fflush(file, H5F_SCOPE_LOCAL), "cannot write", path);
  index.append(std::span<const std::int64_t>(waiting));
  check(H5Fflush(file, H5F_SCOPE_LOCAL), "cannot write", path);
  waiting.clear();
  flushed = Clock::now();
}

void TraceWriter::File::close() {
  flush();
  close_datasets();
  check(H5Fclose(file.release()), "cannot close", path);
}

void TraceWriter::File::close_datasets() {
  index = Dataset();
  length_offsets = Dataset();
  length_values = Dataset();
  step_columns.clear();
  group_columns.clear();
  rank_columns.clear();
}

TraceWriter::File::~File() {
  const hdf5::QuietScope quiet;
  try {
    if (!failed && file >= 0) guarded([&] { close(); });
  } catch (...) {  // TraceWriter::close() is there for who must know
  }
  close_datasets();
  file = Handle();
}

template <class Work>
void TraceWriter::File::guarded(Work&& work) {
  if (file < 0) throw Error(fmt::format("trace {} is closed", path.string()));
  if (failed) {
    throw Error(
        fmt::format("trace {}: an earlier write failed; nothing more is written", path.string()));
  }
  const hdf5::QuietScope quiet;
  try {
    work();
  } catch (...) {
    failed = true;
    hdf5::abandon(file);
    throw;
  }
}

TraceWriter::TraceWriter(const fs::path& file, const TraceHeader& header, TraceFlush flush) {
  trace::check_header(header, file);
  if (flush.steps < 1 || !(flush.seconds >= 0)) {
    throw Error(fmt::format("trace {}: flush every {} steps or {} seconds; give at least 1 and 0",
                            file.string(), flush.steps, flush.seconds));
  }
  const hdf5::QuietScope quiet;
  TraceHeader complete = header;
  complete.library_version = KNAPFORMER_VERSION;
  complete.created = utc_now();
  file_ = std::make_unique<File>(file, std::move(complete), flush);
}

TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;

TraceWriter::~TraceWriter() = default;

void TraceWriter::append(const TraceStep& step) {
  file_->check_sizes(step);
  file_->guarded([&] { file_->append(step); });
}

void TraceWriter::flush() {
  file_->guarded([&] { file_->flush(); });
}

void TraceWriter::close() {
  file_->guarded([&] { file_->close(); });
}

}  // namespace knapformer
