// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace knapformer {

/// The decimal integer that `text` is, if it lies in [least, most]; nothing else may be around it.
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t least,
                                          std::int64_t most);

/// Why parse_integer() refused, for an error: "'1.5' is not an integer".
std::string why_refused(std::string_view text, std::int64_t least, std::int64_t most);

/// In quotes and on one line whatever the bytes: control and non-ASCII bytes as \xNN, at most about
/// 60 characters.
std::string in_quotes(std::string_view text);

/// `text` without the blanks around it.
std::string_view trimmed(std::string_view text);

}  // namespace knapformer
