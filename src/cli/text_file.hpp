// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <string>

namespace knapformer::cli {

/// All of a file, or of the standard input for "-". Throws Error with the system's reason, and for
/// devices, pipes other than the standard input, and more than 1 GiB.
std::string read_text(const std::string& path);

/// Writes a file, or the standard output for "-", to the last byte. Throws Error with the system's
/// reason.
void write_text(const std::string& path, const std::string& text);

}  // namespace knapformer::cli
