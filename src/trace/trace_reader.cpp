// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "knapformer/trace/trace_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
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

/// Whether a writer has the file open, or had until it was killed: the consistency flags of the
/// superblock (HDF5 file format specification 3.0, section II.A) say open for writing, or for SWMR.
bool is_left_open(const fs::path& path) {
  std::array<char, 12> start{};
  std::ifstream file(path, std::ios::binary);
  return file.read(start.data(), start.size()) && start[8] == 3 && (start[11] & 0x5) != 0;
}

/// Opens it as any program would, or in SWMR mode when the writer has not closed it. Not so any
/// file: from HDF5 1.14 on, that mode opens a file that was cut off, and reads zeros behind its
/// end.
Handle open_file(const fs::path& path) {
  std::error_code status;
  if (!fs::exists(path, status)) throw Error(fmt::format("trace {} does not exist", path.string()));
  if (!fs::is_regular_file(path, status)) {
    throw Error(fmt::format("trace {} is not a regular file", path.string()));
  }
  try {
    return {check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "cannot open", path),
            H5Fclose};
  } catch (const Error&) {
    if (!is_left_open(path)) throw;
    const Handle access(check(H5Pcreate(H5P_FILE_ACCESS), "cannot open", path), H5Pclose);
    // HDF5 reads again what the writer may be changing, waiting 1 ns at first and then twice as
    // long each time. Its default of 100 attempts would never end on a damaged file; these take 17
    // ms.
    check(H5Pset_metadata_read_attempts(access, 24), "cannot open", path);
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, access);
    if (file < 0) throw;
    return {file, H5Fclose};
  }
}

void check_format(hid_t file, const fs::path& path) {
  if (H5Aexists(file, trace::kFormatAttribute) <= 0 ||
      H5Aexists(file, trace::kSchemaAttribute) <= 0 ||
      hdf5::read_attribute<std::string>(file, trace::kFormatAttribute, path) != trace::kFormat) {
    throw Error(fmt::format("{} is an HDF5 file, but not a trace", path.string()));
  }
}

TraceHeader read_header(hid_t file, const fs::path& path) {
  check_format(file, path);
  const auto version = hdf5::read_attribute<std::int64_t>(file, trace::kSchemaAttribute, path);
  if (version != kTraceSchemaVersion) {
    throw Error(
        fmt::format("trace {} has schema version {}, and this program reads version {}; use "
                    "the release of KnapFormer that wrote it",
                    path.string(), version, kTraceSchemaVersion));
  }
  TraceHeader header;
  trace::for_each(trace::kHeaderAttributes, [&](const auto& attribute) {
    using T = std::remove_cvref_t<decltype(header.*attribute.member)>;
    header.*attribute.member = hdf5::read_attribute<T>(file, attribute.name, path);
  });
  trace::check_header(header, path);
  return header;
}

template <class Columns>
std::vector<Dataset> open_columns(hid_t file, const Columns& columns, std::int64_t width,
                                  std::int64_t rows, const fs::path& path) {
  std::vector<Dataset> datasets;
  trace::for_each(columns, [&](const auto& column) {
    datasets.push_back(Dataset::open(file, column.path, width, rows, path));
  });
  return datasets;
}

/// Reads row `row` of each of `datasets` into the members that `columns` names.
template <class Columns, class Row>
void read_columns(const std::vector<Dataset>& datasets, const Columns& columns, std::int64_t row,
                  std::span<Row> rows) {
  auto dataset = datasets.begin();
  trace::for_each(columns, [&](const auto& column) {
    using Stored = typename std::remove_cvref_t<decltype(column)>::Stored;
    const std::vector<Stored> values = (dataset++)->template read<Stored>(row, 1);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].*column.member = values[i];
  });
}

}  // namespace

void trace::check_is_trace(const fs::path& path) {
  const hdf5::QuietScope quiet;
  check_format(open_file(path), path);
}

struct TraceReader::File {
  explicit File(const fs::path& file_path);
  std::vector<std::vector<std::int64_t>> read_lengths(std::int64_t row) const;

  fs::path path;
  Handle file;
  bool closed = false;
  TraceHeader header;
  std::vector<std::int64_t> indices;  // of the steps that are complete
  std::vector<Dataset> step_columns;
  std::vector<Dataset> group_columns;
  std::vector<Dataset> rank_columns;
  Dataset length_offsets;
  Dataset length_values;
};

TraceReader::File::File(const fs::path& file_path) : path(file_path) {
  file = open_file(path);
  unsigned mode = 0;
  check(H5Fget_intent(file, &mode), "cannot open", path);
  closed = (mode & (H5F_ACC_SWMR_READ | H5F_ACC_SWMR_WRITE | H5F_ACC_RDWR)) == 0;
  header = read_header(file, path);
  // First the indices: a step that has one is complete, whatever the writer adds meanwhile.
  const Dataset index = Dataset::open(file, trace::kIndex.path, 0, 0, path);
  indices = index.read<std::int64_t>(0, index.rows());
  indices.erase(std::find(indices.begin(), indices.end(), trace::kNotWritten), indices.end());
  const auto steps = static_cast<std::int64_t>(indices.size());
  step_columns = open_columns(file, trace::kStepColumns, 0, steps, path);
  group_columns = open_columns(file, trace::kGroupColumns, header.groups(), steps, path);
  rank_columns = open_columns(file, trace::kRankColumns, header.ranks, steps, path);
  length_offsets = Dataset::open(file, trace::kLengthOffsets, 0, steps * header.ranks + 1, path);
  length_values = Dataset::open(file, trace::kLengthValues, 0, 0, path);
}

std::vector<std::vector<std::int64_t>> TraceReader::File::read_lengths(std::int64_t row) const {
  const auto offsets = length_offsets.read<std::int64_t>(row * header.ranks, header.ranks + 1);
  if (offsets.front() < 0 || !std::is_sorted(offsets.begin(), offsets.end()) ||
      offsets.back() > length_values.rows()) {
    throw Error(
        fmt::format("trace {}: the offsets of row {} are not those of {}; the file "
                    "is damaged",
                    path.string(), row, plural(length_values.rows(), "length")));
  }
  const auto values =
      length_values.read<std::int64_t>(offsets.front(), offsets.back() - offsets.front());
  std::vector<std::vector<std::int64_t>> lengths;
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
    lengths.emplace_back(values.begin() + (offsets[r] - offsets[0]),
                         values.begin() + (offsets[r + 1] - offsets[0]));
  }
  return lengths;
}

TraceReader::TraceReader(const fs::path& file) {
  const hdf5::QuietScope quiet;
  file_ = std::make_unique<File>(file);
}

TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() {
  const hdf5::QuietScope quiet;
  file_.reset();
}

const TraceHeader& TraceReader::header() const { return file_->header; }
std::int64_t TraceReader::steps() const { return static_cast<std::int64_t>(file_->indices.size()); }
bool TraceReader::closed() const { return file_->closed; }

TraceStep TraceReader::read(std::int64_t row) const {
  if (row < 0 || row >= steps()) {
    throw Error(fmt::format("trace {} has no step {}: it holds {}, counted from 0",
                            file_->path.string(), row, plural(steps(), "step")));
  }
  const hdf5::QuietScope quiet;
  TraceStep step;
  step.index = file_->indices[row];
  step.groups.resize(static_cast<std::size_t>(header().groups()));
  step.ranks.resize(static_cast<std::size_t>(header().ranks));
  read_columns(file_->step_columns, trace::kStepColumns, row, std::span(&step, 1));
  read_columns(file_->group_columns, trace::kGroupColumns, row, std::span(step.groups));
  read_columns(file_->rank_columns, trace::kRankColumns, row, std::span(step.ranks));
  step.lengths = file_->read_lengths(row);
  return step;
}

}  // namespace knapformer
