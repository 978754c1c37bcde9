// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "knapformer/train/paper_workloads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "knapformer/plan/error.hpp"
#include "plan/message.hpp"
#include "train/checks.hpp"

namespace knapformer {
namespace {

class PaperSource : public DataSource {
 public:
  PaperSource(const PaperWorkload& workload, std::int64_t ranks, std::uint64_t seed, double scale)
      : ranks_(ranks), scale_(scale), loaders_(std::max(ranks, kPaperRanks)) {
    full_ = make_code_source(workload.codes, TokenRates{}, loaders_, seed);
    description_ = fmt::format("{}, lengths times {:.4g}, dealt to {}", full_->describe(), scale,
                               plural(ranks, "rank"));
  }

  std::vector<std::int64_t> lengths(std::int64_t step, std::int64_t rank) const override {
    check_step_and_rank(step, rank, ranks_);
    std::vector<std::int64_t> all;
    const std::int64_t last = (rank + 1) * loaders_ / ranks_;
    for (std::int64_t loader = rank * loaders_ / ranks_; loader < last; ++loader) {
      for (const std::int64_t length : full_->lengths(step, loader)) {
        const auto scaled = std::llround(static_cast<double>(length) * scale_);
        all.push_back(std::max<std::int64_t>(1, scaled));
      }
    }
    return all;
  }

  std::string describe() const override { return description_; }

 private:
  std::int64_t ranks_;
  double scale_;
  std::int64_t loaders_;
  std::unique_ptr<DataSource> full_;
  std::string description_;
};

}  // namespace

std::unique_ptr<DataSource> make_paper_source(const PaperWorkload& workload, std::int64_t ranks,
                                              std::uint64_t seed, double scale) {
  check_ranks(ranks);
  if (ranks > kPaperRanks && ranks % kPaperRanks != 0) {
    throw Error(
        fmt::format("the workload {} is dealt to 1 to {} ranks, or to a multiple of that; "
                    "{} is neither",
                    workload.name, kPaperRanks, ranks));
  }
  if (!(scale > 0 && scale <= 1)) {
    throw Error(fmt::format("the workload {} with lengths times {}; give more than 0, at most 1",
                            workload.name, scale));
  }
  return std::make_unique<PaperSource>(workload, ranks, seed, scale);
}

}  // namespace knapformer
