// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <string>

#include "cli/command.hpp"

namespace knapformer::cli {

/// `knapformer tune`: compares topologies on the data and machine of a training.
Command add_tune_command(CLI::App& app, const std::string& program);

}  // namespace knapformer::cli
