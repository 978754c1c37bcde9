// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/route/routing.hpp>
#include <string>

#include "plan/message.hpp"

namespace knapformer::model {

/// Tells all ranks when a view on this one has not `rows` rows of `columns`. `name` is "model:
/// argument".
template <class View>
void require_rows(const Routing& routing, const char* name, const View& view, std::int64_t rows,
                  std::int64_t columns) {
  const auto got_rows = static_cast<std::int64_t>(view.extent(0));
  const auto got_columns = static_cast<std::int64_t>(view.extent(1));  // 1 of a vector
  if (got_rows == rows && got_columns == columns) return;
  routing.group().fail(std::string(name) + " is " + std::to_string(got_rows) + " x " +
                       std::to_string(got_columns) + ", expected " + std::to_string(rows) + " x " +
                       std::to_string(columns));
}

/// Tells all ranks when the plan is not for this model.
inline void require_heads(const Routing& routing, const char* model, std::int64_t heads) {
  if (routing.plan().heads() == heads) return;
  routing.group().fail(std::string(model) + ": the plan is for " +
                       plural(routing.plan().heads(), "head") + ", the model has " +
                       std::to_string(heads));
}

}  // namespace knapformer::model
