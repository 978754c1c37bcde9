// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "cli/command.hpp"

namespace knapformer::cli {

/// `knapformer info`: what the program is built with and what it finds here.
Command add_info_command(CLI::App& app);

}  // namespace knapformer::cli
