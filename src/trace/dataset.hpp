// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "trace/hdf5.hpp"

namespace knapformer::hdf5 {

/// A dataset that grows by rows: [rows x width], or [rows] when `width` is 0.
class Dataset {
 public:
  /// How one is made.
  struct Shape {
    std::int64_t width = 0;
    std::int64_t chunk_rows = 1;
  };

  Dataset() = default;

  /// Creates `path` in `file` for elements of type T; elements not written read as `fill`.
  template <class T>
  static Dataset create(hid_t file, const std::string& path, const std::string& units,
                        const Shape& shape, T fill, const std::filesystem::path& name) {
    return create(file, path, units, shape, Type<T>::file(), Type<T>::memory(), &fill, name);
  }

  /// Opens it. Throws Error unless it has this width and at least `least_rows` rows.
  static Dataset open(hid_t file, const std::string& path, std::int64_t width,
                      std::int64_t least_rows, const std::filesystem::path& name);

  std::int64_t rows() const { return rows_; }

  /// Adds whole rows.
  template <class T>
  void append(std::span<const T> values) {
    append(Type<T>::memory(), static_cast<std::int64_t>(values.size()) / elements_of_a_row(),
           values.data());
  }

  /// Reads `count` rows from `first` on; they must exist.
  template <class T>
  std::vector<T> read(std::int64_t first, std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count * elements_of_a_row()));
    if (count > 0) read(Type<T>::memory(), first, count, values.data());
    return values;
  }

 private:
  Dataset(Handle handle, std::string path, std::int64_t width, std::int64_t rows,
          const std::filesystem::path& name)
      : handle_(std::move(handle)),
        path_(std::move(path)),
        width_(width),
        rows_(rows),
        name_(name) {}
  static Dataset create(hid_t file, const std::string& path, const std::string& units,
                        const Shape& shape, hid_t file_type, hid_t memory_type, const void* fill,
                        const std::filesystem::path& name);
  void append(hid_t type, std::int64_t count, const void* values);
  void read(hid_t type, std::int64_t first, std::int64_t count, void* values) const;
  Handle select(std::int64_t first, std::int64_t count, const std::string& action) const;
  Handle memory_space(std::int64_t count, const std::string& action) const;
  std::int64_t elements_of_a_row() const { return width_ == 0 ? 1 : width_; }
  int dimensions() const { return width_ == 0 ? 1 : 2; }

  Handle handle_;
  std::string path_;
  std::int64_t width_ = 0;
  std::int64_t rows_ = 0;
  std::filesystem::path name_;  // of the file, for errors
};

}  // namespace knapformer::hdf5
