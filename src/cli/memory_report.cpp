// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/memory_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "cli/quantities.hpp"

namespace knapformer::cli {
namespace {

using Bytes = std::function<std::int64_t(const TraceRank&)>;

/// One kind of memory.
struct Kind {
  const char* name;
  Bytes predicted;
  Bytes measured;
  bool same_in_both;  ///< placements
};

Bytes sum_of(const Bytes& a, const Bytes& b) {
  return [=](const TraceRank& rank) { return a(rank) + b(rank); };
}

std::vector<Kind> kinds() {
  const Bytes parameters = &TraceRank::memory_parameters, gradients = &TraceRank::memory_gradients,
              optimizer = &TraceRank::memory_optimizer;
  std::vector<Kind> all = {
      {"parameters", parameters, parameters, true},
      {"gradients", gradients, gradients, true},
      {"optimizer", optimizer, optimizer, true},
      {"activations", &TraceRank::predicted_activations, &TraceRank::memory_activations, false},
      {"exchange buffers", &TraceRank::predicted_exchange, &TraceRank::memory_exchange, false}};
  const Bytes none = [](const TraceRank&) { return std::int64_t{0}; };
  Kind total{"total", none, none, false};
  for (const Kind& kind : all) {
    total.predicted = sum_of(total.predicted, kind.predicted);
    total.measured = sum_of(total.measured, kind.measured);
  }
  all.push_back(total);
  return all;
}

struct Spread {
  double max = 0;
  double mean = 0;
};

Spread over_ranks(const TraceStep& step, const Bytes& bytes) {
  Spread spread;
  for (const TraceRank& rank : step.ranks) {
    const auto of_rank = static_cast<double>(bytes(rank));
    spread.max = std::max(spread.max, of_rank);
    spread.mean += of_rank / static_cast<double>(step.ranks.size());
  }
  return spread;
}

std::string row(const std::string& name, const TraceStep& step, const Kind& kind) {
  const Spread predicted = over_ranks(step, kind.predicted);
  const Spread measured = over_ranks(step, kind.measured);
  const auto text = [](double bytes) { return quantity(bytes, "B"); };
  return fmt::format("  {:<30}{:>11}{:>11}{:>12}{:>11}\n", name, text(predicted.max),
                     text(predicted.mean), text(measured.max), text(measured.mean));
}

}  // namespace

std::string memory_table(const TraceStep& unbalanced, const TraceStep& balanced) {
  std::string out = fmt::format("\n{:<32}{:>11}{:>11}{:>12}{:>11}\n", "memory of a rank",
                                "predicted", "mean", "measured", "mean");
  for (const Kind& kind : kinds()) {
    if (kind.same_in_both) {
      out += row(kind.name, balanced, kind);
      continue;
    }
    out += row(fmt::format("{}, unbalanced", kind.name), unbalanced, kind);
    out += row(fmt::format("{}, balanced", kind.name), balanced, kind);
  }
  return out;
}

nlohmann::ordered_json memory_json(const TraceStep& step) {
  nlohmann::ordered_json out;
  for (const Kind& kind : kinds()) {
    const Spread predicted = over_ranks(step, kind.predicted);
    const Spread measured = over_ranks(step, kind.measured);
    out[kind.name] = {{"predicted_max", predicted.max},
                      {"predicted_mean", predicted.mean},
                      {"measured_max", measured.max},
                      {"measured_mean", measured.mean}};
  }
  return out;
}

}  // namespace knapformer::cli
