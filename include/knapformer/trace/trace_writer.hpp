// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <filesystem>
#include <knapformer/trace/trace.hpp>
#include <memory>

namespace knapformer {

/// When rows become safe: after either, whichever comes first. A process that is killed loses the
/// steps appended since.
struct TraceFlush {
  std::int64_t steps = 16;  ///< appended since
  double seconds = 2;       ///< passed since
};

/// Writes a trace: one HDF5 file, from one rank. Others may read it meanwhile (TraceReader, or h5py
/// with swmr=True), and when the writer was killed; after close() any HDF5 program can.
///
/// The file appears under its name once it can be read; until then it has `.partial` appended. An
/// older trace of that name is replaced, any other file is left alone.
class TraceWriter {
 public:
  /// Throws Error when the file cannot be created there, is something else than a trace, or the
  /// header makes no sense.
  TraceWriter(const std::filesystem::path& file, const TraceHeader& header, TraceFlush flush = {});
  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  ~TraceWriter();  ///< close(), but keeps errors to itself

  /// Adds a step. Throws Error, and adds nothing, when its sizes are not those of the header.
  /// Throws Error when writing fails, now and ever after; steps flushed before stay readable.
  void append(const TraceStep& step);

  /// Makes every step appended so far readable.
  void flush();

  /// Flushes and closes the file. Only destruction may follow. Throws Error when that fails.
  void close();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace knapformer
