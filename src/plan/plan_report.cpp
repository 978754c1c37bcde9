// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/plan_report.hpp"

#include <algorithm>
#include <limits>

namespace knapformer {
namespace {

// Exact sums per rank; numbers become floating point only at the end, so that order does not
// matter.
struct Sums {
  explicit Sums(std::int64_t ranks) : work(ranks), tokens(ranks), head_tokens(ranks) {}
  std::vector<Work> work;
  std::vector<std::int64_t> tokens;
  std::vector<Work> head_tokens;  // length times heads
};

double max_over_mean(const std::vector<Work>& work, Work total) {
  if (total == 0) return 1;
  const Work largest = *std::ranges::max_element(work);
  return static_cast<double>(largest) * static_cast<double>(work.size()) /
         static_cast<double>(total);
}

double max_over_min(const std::vector<Work>& work) {
  const auto [least, largest] = std::ranges::minmax(work);
  if (largest == 0) return 1;
  if (least == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(largest) / static_cast<double>(least);
}

std::vector<double> values(const std::vector<Work>& work, const GroupWork& model) {
  std::vector<double> out(work.size());
  std::ranges::transform(work, out.begin(), [&](Work w) { return model.value(w); });
  return out;
}

}  // namespace

PlanReport make_report(const Plan& plan, const GroupWork& work) {
  PlanReport report;
  Sums before(plan.ranks());
  Sums after(plan.ranks());
  Work ulysses = 0;  // tokens times the heads that other ranks compute for them
  for (std::int64_t i = 0; i < plan.sequences(); ++i) {
    const std::int64_t home = plan.homes()[i];
    const std::int64_t length = plan.lengths()[i];
    before.work[home] += work.sequence(i);
    before.tokens[home] += length;
    report.total_tokens += length;
    for (const Chunk& chunk : plan.chunks(i)) {
      after.work[chunk.rank] += work.chunk(i, chunk);
      after.tokens[chunk.rank] += chunk.tokens;
      after.head_tokens[chunk.rank] += Work{length} * chunk.heads;
      ulysses += Work{chunk.tokens} * (plan.heads() - chunk.heads);
      if (chunk.rank != home) report.moved_tokens += chunk.tokens;
    }
  }
  report.work_before = values(before.work, work);
  report.work_after = values(after.work, work);
  report.tokens_before = std::move(before.tokens);
  report.tokens_after = std::move(after.tokens);
  report.max_over_mean_before = max_over_mean(before.work, work.total());
  report.max_over_mean = max_over_mean(after.work, work.total());
  report.max_over_min_before = max_over_min(before.work);
  report.max_over_min = max_over_min(after.work);
  const double heads = static_cast<double>(plan.heads());
  for (Work n : after.head_tokens)
    report.attention_tokens.push_back(static_cast<double>(n) / heads);
  report.ulysses_tokens = static_cast<double>(ulysses) / heads;
  return report;
}

}  // namespace knapformer
