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

/// Throws the Error that write_text() would, if that can be known now. Leaves what is there alone,
/// but makes an empty file where there is none.
void require_writable(const std::string& path);

}  // namespace knapformer::cli
