// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "c/status.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <new>

namespace knapformer::c {
namespace {

// A fixed array, since there may be no memory for an error that says so.
thread_local std::array<char, 4096> last_message{};

}  // namespace

int report(int status, std::string_view text) noexcept {
  const std::size_t size = std::min(text.size(), last_message.size() - 1);
  std::copy_n(text.begin(), size, last_message.begin());
  last_message[size] = '\0';
  return status;
}

int report_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return report(KNAPFORMER_INVALID, error.what());
  } catch (const std::bad_alloc&) {
    return report(KNAPFORMER_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return report(KNAPFORMER_INTERNAL, error.what());
  } catch (...) {
    return report(KNAPFORMER_INTERNAL, "an exception that is no std::exception");
  }
}

}  // namespace knapformer::c

const char* knapformer_error_message(void) { return knapformer::c::last_message.data(); }

const char* knapformer_version(void) { return KNAPFORMER_VERSION; }
