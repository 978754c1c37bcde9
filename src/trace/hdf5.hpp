// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <hdf5.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace knapformer::hdf5 {

/// Throws Error: `action`, the file, and the innermost message on the HDF5 error stack.
[[noreturn]] void fail(std::string_view action, const std::filesystem::path& file);

/// Every return code of HDF5 goes through here: negative means failure.
template <std::signed_integral T>
T check(T result, std::string_view action, const std::filesystem::path& file) {
  if (result < 0) fail(action, file);
  return result;
}

/// Keeps HDF5 from printing its error stack to stderr in the current scope and thread.
class QuietScope {
 public:
  QuietScope();
  ~QuietScope();
  QuietScope(const QuietScope&) = delete;
  QuietScope& operator=(const QuietScope&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// Leaves `file`, on which a write has failed, on disk as it is: HDF5 goes on with a copy in
/// memory. HDF5 cannot close such a file. It takes the mark of a file in writing off an incomplete
/// file, which makes it unreadable, and crashes when the program ends (seen with 1.10.8).
void abandon(hid_t file);

/// Owns an HDF5 identifier.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(other.release()), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }

  operator hid_t() const { return id_; }

  /// Gives the identifier away, for a close whose result matters.
  hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

/// What a C++ type is in memory and in a file, where all is little-endian.
template <class T>
struct Type;
template <>
struct Type<std::int64_t> {
  static hid_t memory() { return H5T_NATIVE_INT64; }
  static hid_t file() { return H5T_STD_I64LE; }
};
template <>
struct Type<std::uint64_t> {
  static hid_t memory() { return H5T_NATIVE_UINT64; }
  static hid_t file() { return H5T_STD_U64LE; }
};
template <>
struct Type<std::uint8_t> {
  static hid_t memory() { return H5T_NATIVE_UINT8; }
  static hid_t file() { return H5T_STD_U8LE; }
};
template <>
struct Type<double> {
  static hid_t memory() { return H5T_NATIVE_DOUBLE; }
  static hid_t file() { return H5T_IEEE_F64LE; }
};

/// Scalar attributes; strings have a fixed length and are UTF-8.
template <class T>
void write_attribute(hid_t object, const char* name, const T& value,
                     const std::filesystem::path& file);
template <class T>
T read_attribute(hid_t object, const char* name, const std::filesystem::path& file);

}  // namespace knapformer::hdf5
