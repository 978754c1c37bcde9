// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <vector>

#include "cli/command.hpp"

namespace knapformer::cli {

/// `knapformer experiment paper`: the experiment of arXiv 2508.06001 on the ranks there are. The
/// last of the commands says what is missing when no experiment is named.
std::vector<Command> add_experiment_commands(CLI::App& app);

}  // namespace knapformer::cli
