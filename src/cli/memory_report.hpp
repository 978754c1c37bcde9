// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/trace/trace.hpp>
#include <nlohmann/json.hpp>
#include <string>

namespace knapformer::cli {

/// What ranks hold and were predicted to need after the last step of each placement: the largest
/// and the mean.
std::string memory_table(const TraceStep& unbalanced, const TraceStep& balanced);
nlohmann::ordered_json memory_json(const TraceStep& step);

}  // namespace knapformer::cli
