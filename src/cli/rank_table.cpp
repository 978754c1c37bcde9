// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/rank_table.hpp"

#include <fmt/format.h>

#include <knapformer/plan/error.hpp>
#include <nlohmann/json.hpp>

#include "cli/text_file.hpp"

namespace knapformer::cli {
namespace {

using nlohmann::json;

class Reader {
 public:
  Reader(const std::string& path, const std::string& key, std::int64_t highest)
      : name_(path == "-" ? "the standard input" : path), key_(key), highest_(highest) {}

  RankTable read(const std::string& text) const {
    const json document = parse(text);
    const json* rows = nullptr;
    if (document.is_object() && document.contains(key_)) rows = &document[key_];
    if (!rows || !rows->is_array()) {
      fail(fmt::format("expected {{\"{}\": [[...], ...]}}, a list of whole numbers for every rank",
                       key_));
    }
    RankTable table;
    table.source = name_;
    for (std::size_t r = 0; r < rows->size(); ++r) {
      const json& row = (*rows)[r];
      if (!row.is_array()) {
        fail(fmt::format("{}[{}] is {}; expected a list of whole numbers", key_, r, shown(row)));
      }
      for (std::size_t i = 0; i < row.size(); ++i) table.values.push_back(number(row[i], r, i));
      table.offsets.push_back(std::ssize(table.values));
    }
    return table;
  }

 private:
  json parse(const std::string& text) const {
    // The library takes a zero byte for the end of the text.
    if (text.find('\0') != std::string::npos) fail("not valid JSON: it has a zero byte");
    try {
      return json::parse(text);
    } catch (const json::exception& error) {
      std::string why = error.what();
      why.erase(0, why.find(']') + 2);  // the library's number of the error
      for (char& c : why)
        c = (c >= ' ' && c <= '~') ? c : '?';  // it quotes bytes that are not text
      fail("not valid JSON: " + why);
    }
  }

  std::int64_t number(const json& value, std::size_t r, std::size_t i) const {
    const bool whole = value.is_number_integer();
    const bool unsigned_fits = !value.is_number_unsigned() ||
                               value.get<std::uint64_t>() <= static_cast<std::uint64_t>(highest_);
    if (whole && unsigned_fits) {
      const auto n = value.get<std::int64_t>();
      if (n >= 0 && n <= highest_) return n;
    }
    fail(fmt::format("{}[{}][{}] is {}; expected a whole number from 0 to {}", key_, r, i,
                     shown(value), highest_));
  }

  static std::string shown(const json& value) {
    if (value.is_array()) return "a list";  // which may be nested more deeply than can be printed
    if (value.is_object()) return "an object";
    const std::string text = value.dump(-1, ' ', true);
    return text.size() <= 40 ? text : text.substr(0, 40) + "...";
  }

  [[noreturn]] void fail(const std::string& why) const { throw Error(name_ + ": " + why); }

  std::string name_;
  std::string key_;
  std::int64_t highest_;
};

}  // namespace

RankTable read_rank_table(const std::string& path, const std::string& key, std::int64_t highest) {
  return Reader(path, key, highest).read(read_text(path));
}

}  // namespace knapformer::cli
