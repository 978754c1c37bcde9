// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <filesystem>
#include <knapformer/trace/trace.hpp>
#include <memory>

namespace knapformer {

/// Reads a trace that TraceWriter wrote, is writing, or was killed while writing.
class TraceReader {
 public:
  /// Throws Error when the file is missing, damaged, not a trace, or of another schema version.
  explicit TraceReader(const std::filesystem::path& file);
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader();

  const TraceHeader& header() const;  ///< of the file, read when it was opened

  /// Steps that were safe in the file when it was opened.
  std::int64_t steps() const;

  /// Whether the writer closed the file; false while it writes, and when it was killed.
  bool closed() const;

  /// Step `row` in the order of writing. Throws Error unless row is in [0, steps()).
  TraceStep read(std::int64_t row) const;

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace knapformer
