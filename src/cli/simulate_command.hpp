// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include "cli/command.hpp"

namespace knapformer::cli {

/// `knapformer simulate`: trains on the same steps without and with balancing, and compares.
Command add_simulate_command(CLI::App& app);

}  // namespace knapformer::cli
