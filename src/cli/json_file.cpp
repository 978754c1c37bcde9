// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/json_file.hpp"

#include <knapformer/plan/error.hpp>
#include <limits>

#include "cli/text_file.hpp"

namespace knapformer::cli {

using nlohmann::json;

std::string source_name(const std::string& path) {
  return path == "-" ? "the standard input" : path;
}

json read_json(const std::string& path) {
  const std::string text = read_text(path);
  const std::string not_valid = source_name(path) + ": not valid JSON: ";
  // The library takes a zero byte for the end of the text.
  if (text.find('\0') != std::string::npos) throw Error(not_valid + "it has a zero byte");
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    std::string why = error.what();
    why.erase(0, why.find(']') + 2);                           // the library's number of the error
    for (char& c : why) c = (c >= ' ' && c <= '~') ? c : '?';  // it quotes bytes that are not text
    throw Error(not_valid + why);
  }
}

std::string shown(const json& value) {
  if (value.is_array()) return "a list";  // which may be nested more deeply than can be printed
  if (value.is_object()) return "an object";
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= 40 ? text : text.substr(0, 40) + "...";
}

std::optional<std::int64_t> whole_number(const json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  return value.get<std::int64_t>();
}

}  // namespace knapformer::cli
