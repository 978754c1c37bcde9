// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/knapformer_plan.h>

#include <knapformer/plan/error.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace knapformer::c {

/// Keeps `text` for knapformer_error_message(). Returns `status`. Needs no memory.
KNAPFORMER_C_API int report(int status, std::string_view text) noexcept;

/// The same for the exception that is being handled.
KNAPFORMER_C_API int report_exception() noexcept;

/// Runs a function that concerns this process alone. No exception leaves it.
template <class Function>
int local(Function&& function) noexcept {
  try {
    std::forward<Function>(function)();
    return KNAPFORMER_SUCCESS;
  } catch (...) {
    return report_exception();
  }
}

/// Throws Error when an argument that must be there is not.
inline void require(const void* argument, const char* function, const char* name) {
  if (!argument) throw Error(std::string(function) + ": " + name + " is NULL");
}

/// Throws Error for options that were not filled by their _init function, or by that of another
/// version.
template <class Options>
void require_initialised(const Options& options, const char* function, const char* init) {
  if (options.struct_size == std::int64_t{sizeof(Options)}) return;
  throw Error(std::string(function) + ": the options are not those of this version; fill them by " +
              init + " first");
}

}  // namespace knapformer::c
