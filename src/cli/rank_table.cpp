// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/rank_table.hpp"

#include <fmt/format.h>

#include <knapformer/plan/error.hpp>

#include "cli/json_file.hpp"

namespace knapformer::cli {

using nlohmann::json;

RankTable read_rank_table(const std::string& path, const std::string& key, std::int64_t highest) {
  RankTable table;
  table.source = source_name(path);
  const json document = read_json(path);
  const json* rows = nullptr;
  if (document.is_object() && document.contains(key)) rows = &document[key];
  if (!rows || !rows->is_array()) {
    throw Error(
        fmt::format("{}: expected {{\"{}\": [[...], ...]}}, a list of whole numbers for every rank",
                    table.source, key));
  }
  for (std::size_t r = 0; r < rows->size(); ++r) {
    const json& row = (*rows)[r];
    if (!row.is_array()) {
      throw Error(fmt::format("{}: {}[{}] is {}; expected a list of whole numbers", table.source,
                              key, r, shown(row)));
    }
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto number = whole_number(row[i]);
      if (!number || *number < 0 || *number > highest) {
        throw Error(fmt::format("{}: {}[{}][{}] is {}; expected a whole number from 0 to {}",
                                table.source, key, r, i, shown(row[i]), highest));
      }
      table.values.push_back(*number);
    }
    table.offsets.push_back(std::ssize(table.values));
  }
  return table;
}

}  // namespace knapformer::cli
