// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <chrono>
#include <knapformer/plan/error.hpp>
#include <knapformer/plan/plan.hpp>
#include <utility>

#include "plan/group_work.hpp"
#include "plan/plan_report.hpp"

namespace knapformer {
namespace {

// Takes 64-bit words in order, so the bytes of a machine play no part. Each step is a bijection of
// the state.
class Hash {
 public:
  void add(std::int64_t word) {
    state_ = (state_ ^ static_cast<std::uint64_t>(word)) * 0x9e3779b97f4a7c15u;
    state_ ^= state_ >> 32;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

std::uint64_t hash_of(const Plan& plan) {
  Hash hash;
  hash.add(plan.ranks());
  hash.add(plan.heads());
  hash.add(plan.sequences());
  for (std::int64_t i = 0; i < plan.sequences(); ++i) {
    hash.add(plan.homes()[i]);
    hash.add(plan.lengths()[i]);
    hash.add(std::ssize(plan.chunks(i)));
    for (const Chunk& chunk : plan.chunks(i)) {
      hash.add(chunk.rank);
      hash.add(chunk.tokens);
      hash.add(chunk.heads);
    }
  }
  return hash.value();
}

void require(bool holds, const char* what) {
  if (!holds) throw Error(std::string("invalid plan: ") + what);
}

// Checks one sequence after another. What breaks an invariant is text that the caller completes.
class SequenceCheck {
 public:
  explicit SequenceCheck(const Plan& plan) : plan_(plan), last_user_(plan.ranks(), -1) {}

  /// Null if all is well.
  const char* complaint(std::int64_t i) {
    const std::int64_t home = plan_.homes()[i];
    const std::int64_t length = plan_.lengths()[i];
    if (home < 0 || home >= plan_.ranks()) return "its home is not a rank of the group";
    if (i > 0 && plan_.homes()[i - 1] > home) return "it comes after one with a later home";
    if (length < 0 || length > CostModel::kMaxLength) return "its length is out of range";
    if (length == 0) return plan_.chunks(i).empty() ? nullptr : "it has chunks but no tokens";
    std::int64_t tokens = 0, heads = 0;
    const auto bag = plan_.chunks(i);
    for (const Chunk& chunk : bag) {
      if (chunk.rank < 0 || chunk.rank >= plan_.ranks())
        return "a chunk is on no rank of the group";
      if (bag.size() > 1 && std::exchange(last_user_[chunk.rank], i) == i)
        return "a rank is twice in its bag";
      if (chunk.first_token != tokens) return "its chunks leave a gap in its tokens or overlap";
      if (chunk.first_head != heads) return "its head ranges leave a gap or overlap";
      if (chunk.tokens < 1 || chunk.heads < 1) return "a chunk has no tokens or no heads";
      if (chunk.tokens > length - tokens) return "its chunks have more tokens than it has";
      if (chunk.heads > plan_.heads() - heads) return "its chunks have more heads than the model";
      tokens += chunk.tokens;
      heads += chunk.heads;
    }
    if (tokens != length) return "its chunks have fewer tokens than it has";
    if (heads != plan_.heads()) return "its chunks have fewer heads than the model";
    return nullptr;
  }

 private:
  const Plan& plan_;
  std::vector<std::int64_t> last_user_;  // per rank: the last bag that it was in
};

}  // namespace

struct Plan::Data {
  std::int64_t ranks;
  std::int64_t heads;
  std::vector<std::int64_t> homes, lengths, chunk_offsets;
  std::vector<Chunk> chunks;
  PlanReport report;
  std::uint64_t hash = 0;
};

Plan::Plan(std::int64_t ranks, std::int64_t heads, const CostModel& cost,
           std::vector<std::int64_t> homes, std::vector<std::int64_t> lengths,
           std::vector<std::int64_t> chunk_offsets, std::vector<Chunk> chunks,
           std::span<const std::int64_t> costs, const Machine& machine, PlanBounds bounds,
           double plan_seconds) {
  const auto start = std::chrono::steady_clock::now();
  auto data = std::make_shared<Data>(Data{ranks,
                                          heads,
                                          std::move(homes),
                                          std::move(lengths),
                                          std::move(chunk_offsets),
                                          std::move(chunks),
                                          {}});
  data_ = data;
  validate();
  const GroupWork work(cost, heads, data->lengths, costs);
  machine.check(ranks);
  PlanReport report = make_report(*this, work, machine, bounds);
  data->hash = hash_of(*this);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  report.plan_seconds = plan_seconds + taken.count();
  data->report = std::move(report);
}

std::int64_t Plan::ranks() const { return data_->ranks; }
std::int64_t Plan::heads() const { return data_->heads; }
std::int64_t Plan::sequences() const { return std::ssize(data_->homes); }
std::span<const std::int64_t> Plan::homes() const { return data_->homes; }
std::span<const std::int64_t> Plan::lengths() const { return data_->lengths; }
std::span<const std::int64_t> Plan::chunk_offsets() const { return data_->chunk_offsets; }
std::span<const Chunk> Plan::all_chunks() const { return data_->chunks; }
const PlanReport& Plan::report() const { return data_->report; }
std::uint64_t Plan::hash() const { return data_->hash; }

std::span<const Chunk> Plan::chunks(std::int64_t sequence) const {
  const auto& offsets = data_->chunk_offsets;
  return all_chunks().subspan(offsets[sequence], offsets[sequence + 1] - offsets[sequence]);
}

void Plan::validate() const {
  const auto& offsets = data_->chunk_offsets;
  require(ranks() >= 1, "it needs at least one rank");
  require(heads() >= 1 && heads() <= kMaxHeads, "its number of heads is out of range");
  require(data_->lengths.size() == data_->homes.size(), "as many lengths as homes are needed");
  require(offsets.size() == data_->homes.size() + 1,
          "one chunk offset more than sequences is needed");
  require(offsets.front() == 0 && offsets.back() == std::ssize(data_->chunks) &&
              std::ranges::is_sorted(offsets),
          "chunk offsets must rise from 0 to the number of chunks");
  SequenceCheck check(*this);
  for (std::int64_t i = 0; i < sequences(); ++i) {
    if (const char* complaint = check.complaint(i)) {
      throw Error("invalid plan: sequence " + std::to_string(i) + " (home " +
                  std::to_string(homes()[i]) + ", " + std::to_string(lengths()[i]) +
                  " tokens): " + complaint);
    }
  }
}

}  // namespace knapformer
