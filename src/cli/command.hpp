// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace knapformer::cli {

/// A subcommand of the program. Each has a function `Command add_..._command(CLI::App&)` that
/// registers its options.
struct Command {
  const CLI::App* app = nullptr;
  /// True: runs on every process, with MPI initialised, and an Error is thrown by all alike.
  /// False: runs on the first process only.
  bool collective = false;
  std::function<void()> run;  ///< after parsing; throws Error
};

}  // namespace knapformer::cli
