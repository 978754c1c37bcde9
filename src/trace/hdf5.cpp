// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "trace/hdf5.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <type_traits>

#ifdef __linux__
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#endif

#include "knapformer/plan/error.hpp"

namespace knapformer::hdf5 {
namespace {

herr_t keep_first(unsigned, const H5E_error2_t* error, void* text) {
  if (error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
  return 1;  // no further
}

/// What a person needs of HDF5's message: system errors come with times, addresses and sizes.
std::string shortened(const std::string& reason) {
  constexpr std::string_view kSystemError = "error message = '";
  const std::size_t begin = reason.find(kSystemError);
  if (begin == std::string::npos) return reason.substr(0, reason.find('\n'));
  const std::string system = reason.substr(begin + kSystemError.size());
  return fmt::format("{}: {}", reason.substr(0, reason.find(':')),
                     system.substr(0, system.find('\'')));
}

/// A fixed-length string type; HDF5 has none of length zero.
Handle string_type(std::size_t size, const std::filesystem::path& file) {
  Handle type(check(H5Tcopy(H5T_C_S1), "cannot make a string type for", file), H5Tclose);
  check(H5Tset_size(type, std::max<std::size_t>(size, 1)), "cannot make a string type for", file);
  check(H5Tset_strpad(type, H5T_STR_NULLPAD), "cannot make a string type for", file);
  check(H5Tset_cset(type, H5T_CSET_UTF8), "cannot make a string type for", file);
  return type;
}

void write(hid_t object, const char* name, hid_t file_type, hid_t memory_type, const void* value,
           const std::filesystem::path& file) {
  const std::string action = fmt::format("cannot write attribute {} of", name);
  const Handle scalar(check(H5Screate(H5S_SCALAR), action, file), H5Sclose);
  const Handle attribute(
      check(H5Acreate2(object, name, file_type, scalar, H5P_DEFAULT, H5P_DEFAULT), action, file),
      H5Aclose);
  check(H5Awrite(attribute, memory_type, value), action, file);
}

Handle open_scalar(hid_t object, const char* name, const std::filesystem::path& file) {
  const std::string action = fmt::format("cannot read attribute {} of", name);
  Handle attribute(check(H5Aopen(object, name, H5P_DEFAULT), action, file), H5Aclose);
  const Handle space(check(H5Aget_space(attribute), action, file), H5Sclose);
  if (H5Sget_simple_extent_npoints(space) != 1) {
    throw Error(fmt::format("{} {}: it is not one value", action, file.string()));
  }
  return attribute;
}

}  // namespace

void fail(std::string_view action, const std::filesystem::path& file) {
  std::string reason = "HDF5 gives no reason";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &reason);
  H5Eclear2(H5E_DEFAULT);
  const bool locked = reason.find("lock") != std::string::npos;
  throw Error(fmt::format("{} trace {}: {}{}", action, file.string(), shortened(reason),
                          locked ? "; another program may have it open, or the file system cannot "
                                   "lock files: then set HDF5_USE_FILE_LOCKING=FALSE"
                                 : ""));
}

void abandon([[maybe_unused]] hid_t file) {
#ifdef __linux__
  int* descriptor = nullptr;
  if (H5Fget_vfd_handle(file, H5P_DEFAULT, reinterpret_cast<void**>(&descriptor)) < 0) return;
  const int memory = ::memfd_create("abandoned trace", MFD_CLOEXEC);
  if (memory < 0) return;
  struct stat status {};
  ::fstat(*descriptor, &status);
  off_t copied = 0;
  while (copied<status.st_size&& ::sendfile(memory, *descriptor, &copied,
                                            static_cast<std::size_t>(status.st_size - copied))> 0) {
  }
  if (copied == status.st_size) ::dup2(memory, *descriptor);
  ::close(memory);
  H5Fflush(file, H5F_SCOPE_LOCAL);  // resets what the failed flush left half done; may fail itself
#endif
}

QuietScope::QuietScope() {
  H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

QuietScope::~QuietScope() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }

template <class T>
void write_attribute(hid_t object, const char* name, const T& value,
                     const std::filesystem::path& file) {
  if constexpr (std::is_same_v<T, std::string>) {
    const Handle type = string_type(value.size(), file);
    write(object, name, type, type, value.c_str(), file);
  } else {
    write(object, name, Type<T>::file(), Type<T>::memory(), &value, file);
  }
}

template <class T>
T read_attribute(hid_t object, const char* name, const std::filesystem::path& file) {
  const std::string action = fmt::format("cannot read attribute {} of", name);
  const Handle attribute = open_scalar(object, name, file);
  T value{};
  if constexpr (std::is_same_v<T, std::string>) {
    const Handle stored(check(H5Aget_type(attribute), action, file), H5Tclose);
    if (H5Tget_class(stored) != H5T_STRING || H5Tis_variable_str(stored) != 0) {
      throw Error(fmt::format("{} {}: it is not a fixed-length string", action, file.string()));
    }
    value.resize(H5Tget_size(stored));
    const Handle type = string_type(value.size(), file);
    check(H5Aread(attribute, type, value.data()), action, file);
    value.resize(std::min(value.size(), value.find('\0')));
  } else {
    check(H5Aread(attribute, Type<T>::memory(), &value), action, file);
  }
  return value;
}

template void write_attribute(hid_t, const char*, const std::string&, const std::filesystem::path&);
template void write_attribute(hid_t, const char*, const std::int64_t&,
                              const std::filesystem::path&);
template void write_attribute(hid_t, const char*, const std::uint64_t&,
                              const std::filesystem::path&);
template void write_attribute(hid_t, const char*, const double&, const std::filesystem::path&);
template std::string read_attribute(hid_t, const char*, const std::filesystem::path&);
template std::int64_t read_attribute(hid_t, const char*, const std::filesystem::path&);
template std::uint64_t read_attribute(hid_t, const char*, const std::filesystem::path&);
template double read_attribute(hid_t, const char*, const std::filesystem::path&);

}  // namespace knapformer::hdf5
