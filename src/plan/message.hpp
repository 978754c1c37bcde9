// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace knapformer {

/// User text for an error message: in quotes, on one line, and not too long.
inline std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string out = "\"";
  for (char c : text.substr(0, kLongest)) out += (c >= ' ' && c <= '~') ? c : '?';
  if (text.size() > kLongest) out += "...";
  return out + '"';
}

/// "1 rank", "2 ranks", "2 micro-batches".
inline std::string plural(std::int64_t count, std::string_view what) {
  std::string out = std::to_string(count).append(1, ' ').append(what);
  if (count != 1) out += what.ends_with("ch") ? "es" : "s";
  return out;
}

}  // namespace knapformer
