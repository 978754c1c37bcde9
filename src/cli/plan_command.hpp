// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "cli/command.hpp"

namespace knapformer::cli {

/// `knapformer plan`: plans given lengths offline, and prints the plan as JSON or its quality as a
/// table.
Command add_plan_command(CLI::App& app);

}  // namespace knapformer::cli
