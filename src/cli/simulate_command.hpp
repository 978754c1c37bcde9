// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <string>

#include "cli/command.hpp"

namespace knapformer::cli {

/// `knapformer simulate`: trains on the same steps without and with balancing, and compares.
/// `command_line` is noted in the trace.
Command add_simulate_command(CLI::App& app, const std::string& command_line);

}  // namespace knapformer::cli
