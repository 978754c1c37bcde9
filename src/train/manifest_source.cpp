// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <utility>

#include "knapformer/plan/error.hpp"
#include "knapformer/train/data_source.hpp"
#include "plan/message.hpp"
#include "train/checks.hpp"
#include "train/random.hpp"

namespace knapformer {
namespace {

class ManifestSource : public DataSource {
 public:
  ManifestSource(const std::filesystem::path& file, const TokenRates& rates, const Dealing& dealing)
      : lengths_(read_manifest(file, rates)),
        dealing_(dealing),
        description_(fmt::format(
            "manifest {}, {}, patch {}, temporal {}, {} per rank and step, seed {}",
            file.filename().string(), plural(std::ssize(lengths_), "sample"), rates.patch,
            rates.temporal, plural(dealing.samples_per_rank, "sample"), dealing.seed)) {}

  std::vector<std::int64_t> lengths(std::int64_t step, std::int64_t rank) const override {
    check_step_and_rank(step, rank, dealing_.ranks);
    const std::int64_t each = dealing_.samples_per_rank;
    if (step >= std::numeric_limits<std::int64_t>::max() / each / dealing_.ranks) {
      throw Error(fmt::format("step {} lies beyond what can be counted", step));
    }
    const auto samples = static_cast<std::int64_t>(lengths_.size());
    const std::int64_t first = (step * dealing_.ranks + rank) * each;
    std::vector<std::int64_t> dealt(static_cast<std::size_t>(each));
    for (std::int64_t i = 0; i < each; ++i) {
      const std::int64_t position = first + i;
      dealt[i] = lengths_[order(position / samples)[position % samples]];
    }
    return dealt;
  }

  std::string describe() const override { return description_; }

 private:
  /// The order in which `epoch`, one pass over the samples, takes them.
  const std::vector<std::int64_t>& order(std::int64_t epoch) const {
    if (epoch == epoch_) return order_;
    order_.resize(lengths_.size());
    std::iota(order_.begin(), order_.end(), 0);
    RandomEngine engine = random_stream(dealing_.seed, static_cast<std::uint64_t>(epoch), 0);
    for (std::size_t left = order_.size(); left > 1; --left) {  // Fisher-Yates
      std::swap(order_[left - 1], order_[below(engine, static_cast<std::int64_t>(left))]);
    }
    epoch_ = epoch;
    return order_;
  }

  std::vector<std::int64_t> lengths_;
  Dealing dealing_;
  std::string description_;
  mutable std::vector<std::int64_t> order_;  // of epoch_
  mutable std::int64_t epoch_ = -1;
};

}  // namespace

std::unique_ptr<DataSource> make_manifest_source(const std::filesystem::path& file,
                                                 const TokenRates& rates, const Dealing& dealing) {
  check_ranks(dealing.ranks);
  if (dealing.samples_per_rank < 1 || dealing.samples_per_rank > kMaxSamplesPerRank) {
    throw Error(fmt::format("{} samples per rank and step; give 1 to {}", dealing.samples_per_rank,
                            kMaxSamplesPerRank));
  }
  return std::make_unique<ManifestSource>(file, rates, dealing);
}

}  // namespace knapformer
