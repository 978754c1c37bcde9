// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

// Reads the golden files: arrays of numbers and numeric attributes of an HDF5 file.

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace knapformer::test {

/// Where the golden files are: KNAPFORMER_GOLDEN_DIR, or the copies in the repository.
inline std::string golden_directory() {
  const char* directory = std::getenv("KNAPFORMER_GOLDEN_DIR");
  return directory != nullptr ? directory : KNAPFORMER_TEST_DATA;
}

struct GoldenArray {
  std::vector<std::int64_t> extents;
  std::vector<double> values;
};

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& path)
      : path_(path), file_(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)) {
    if (file_ < 0) throw std::runtime_error("cannot open " + path);
  }
  ~GoldenFile() { H5Fclose(file_); }
  GoldenFile(const GoldenFile&) = delete;
  GoldenFile& operator=(const GoldenFile&) = delete;

  GoldenArray array(const std::string& name) const {
    const hid_t dataset = checked(H5Dopen2(file_, name.c_str(), H5P_DEFAULT), name);
    const hid_t space = H5Dget_space(dataset);
    std::vector<hsize_t> extents(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
    H5Sget_simple_extent_dims(space, extents.data(), nullptr);
    GoldenArray array;
    array.extents.assign(extents.begin(), extents.end());
    array.values.resize(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    const herr_t status = array.values.empty() ? 0
                                               : H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL,
                                                         H5S_ALL, H5P_DEFAULT, array.values.data());
    H5Sclose(space);
    H5Dclose(dataset);
    checked(status, name);
    return array;
  }

  double attribute(const std::string& name) const {
    const hid_t attribute = checked(H5Aopen(file_, name.c_str(), H5P_DEFAULT), name);
    double value = 0;
    const herr_t status = H5Aread(attribute, H5T_NATIVE_DOUBLE, &value);
    H5Aclose(attribute);
    checked(status, name);
    return value;
  }

 private:
  template <class Status>
  Status checked(Status status, const std::string& name) const {
    if (status < 0) throw std::runtime_error(path_ + ": cannot read " + name);
    return status;
  }

  std::string path_;
  hid_t file_;
};

}  // namespace knapformer::test
