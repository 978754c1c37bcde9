// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "trace/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "knapformer/plan/error.hpp"

namespace knapformer::hdf5 {
namespace {

using Extent = std::array<hsize_t, 2>;  // of a one-dimensional dataset the first alone counts

Extent extent(std::int64_t rows, std::int64_t width) {
  return {static_cast<hsize_t>(rows), static_cast<hsize_t>(width)};
}

}  // namespace

Dataset Dataset::create(hid_t file, const std::string& path, const std::string& units,
                        const Shape& shape, hid_t file_type, hid_t memory_type, const void* fill,
                        const std::filesystem::path& name) {
  const std::string action = fmt::format("cannot create {} in", path);
  Dataset made(Handle(), path, shape.width, 0, name);
  constexpr std::int64_t kWidestChunk = 8192;
  const Extent none = extent(0, shape.width);
  const Extent unlimited = {H5S_UNLIMITED, none[1]};
  const Extent chunk = extent(shape.chunk_rows, std::min(shape.width, kWidestChunk));
  const Handle space(
      check(H5Screate_simple(made.dimensions(), none.data(), unlimited.data()), action, name),
      H5Sclose);
  const Handle creation(check(H5Pcreate(H5P_DATASET_CREATE), action, name), H5Pclose);
  check(H5Pset_chunk(creation, made.dimensions(), chunk.data()), action, name);
  check(H5Pset_fill_value(creation, memory_type, fill), action, name);
  made.handle_ = Handle(
      check(H5Dcreate2(file, path.c_str(), file_type, space, H5P_DEFAULT, creation, H5P_DEFAULT),
            action, name),
      H5Dclose);
  write_attribute(made.handle_, "units", units, name);
  return made;
}

Dataset Dataset::open(hid_t file, const std::string& path, std::int64_t width,
                      std::int64_t least_rows, const std::filesystem::path& name) {
  const std::string action = fmt::format("cannot open {} in", path);
  Handle handle(check(H5Dopen2(file, path.c_str(), H5P_DEFAULT), action, name), H5Dclose);
  const Handle space(check(H5Dget_space(handle), action, name), H5Sclose);
  const int dimensions = check(H5Sget_simple_extent_ndims(space), action, name);
  Extent size = {0, 0};
  if (dimensions <= 2) {
    check(H5Sget_simple_extent_dims(space, size.data(), nullptr), action, name);
  }
  if (dimensions != (width == 0 ? 1 : 2) || static_cast<std::int64_t>(size[1]) != width ||
      static_cast<std::int64_t>(size[0]) < least_rows) {
    throw Error(fmt::format(
        "{} trace {}: {} dimensions of {} x {}, where at least {} x {} (0: one dimension) are "
        "expected; the file is damaged",
        action, name.string(), dimensions, size[0], size[1], least_rows, width));
  }
  return {std::move(handle), path, width, static_cast<std::int64_t>(size[0]), name};
}

Handle Dataset::select(std::int64_t first, std::int64_t count, const std::string& action) const {
  Handle space(check(H5Dget_space(handle_), action, name_), H5Sclose);
  const Extent start = extent(first, 0);
  const Extent size = extent(count, width_);
  check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, size.data(), nullptr),
        action, name_);
  return space;
}

Handle Dataset::memory_space(std::int64_t count, const std::string& action) const {
  return {
      check(H5Screate_simple(dimensions(), extent(count, width_).data(), nullptr), action, name_),
      H5Sclose};
}

void Dataset::append(hid_t type, std::int64_t count, const void* values) {
  if (count == 0) return;
  const std::string action = fmt::format("cannot write {} in", path_);
  check(H5Dset_extent(handle_, extent(rows_ + count, width_).data()), action, name_);
  const Handle target = select(rows_, count, action);
  const Handle source = memory_space(count, action);
  check(H5Dwrite(handle_, type, source, target, H5P_DEFAULT, values), action, name_);
  rows_ += count;
}

void Dataset::read(hid_t type, std::int64_t first, std::int64_t count, void* values) const {
  const std::string action = fmt::format("cannot read {} in", path_);
  const Handle source = select(first, count, action);
  const Handle target = memory_space(count, action);
  check(H5Dread(handle_, type, target, source, H5P_DEFAULT, values), action, name_);
}

}  // namespace knapformer::hdf5
