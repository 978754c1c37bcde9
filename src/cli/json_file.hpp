// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace knapformer::cli {

/// How messages call an input file: its path, or the standard input for "-".
std::string source_name(const std::string& path);

/// The JSON document in a file, or on the standard input for "-". Throws Error when it cannot be
/// read or is none.
nlohmann::json read_json(const std::string& path);

/// A value as a message quotes it, cut when it is long.
std::string shown(const nlohmann::json& value);

/// A whole number that int64 holds, written as one (2.0 is none).
std::optional<std::int64_t> whole_number(const nlohmann::json& value);

}  // namespace knapformer::cli
