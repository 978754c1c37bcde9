// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <future>
#include <knapformer/comm/mpi.hpp>
#include <knapformer/route/balancer.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "plan/message.hpp"
#include "route/balancer_options.hpp"
#include "route/metadata.hpp"
#include "route/speed_estimate.hpp"

namespace knapformer {
namespace {

constexpr std::int64_t kFirstCapacity = 64;
const std::string kPrepareRegion = "KnapFormer::prepare";

std::vector<double> initial_speeds(const BalancerOptions& options, int ranks) {
  if (!options.speed_estimate.empty()) return options.speed_estimate;
  if (!options.machine.speeds.empty()) return options.machine.speeds;
  return std::vector<double>(static_cast<std::size_t>(ranks), 1.0);
}

/// The machine with estimated speeds, which are relative: their mean is the configured one.
Machine machine_of(const BalancerOptions& options, const SpeedEstimate& estimate) {
  Machine machine = options.machine;
  if (!options.adapt_to_speed) return machine;
  std::vector<double> speeds = estimate.speeds();
  if (!machine.speeds.empty()) {
    const double sum = std::accumulate(machine.speeds.begin(), machine.speeds.end(), 0.0);
    const double mean = sum / static_cast<double>(machine.speeds.size());
    for (double& speed : speeds) speed = std::clamp(speed * mean, 0x1p-10, 0x1p10);
  }
  machine.speeds = std::move(speeds);
  return machine;
}

/// What a plan is made of. Owns it, for a thread of its own.
struct PlanInput {
  std::shared_ptr<const BalancerOptions> options;
  Machine machine;
  std::vector<std::int64_t> lengths = {};
  std::vector<std::int64_t> costs = {};
  std::vector<std::int64_t> offsets = {0};

  void add(const Metadata& metadata) {
    for (std::size_t r = 0; r < metadata.headers.size(); ++r) {
      const auto first = metadata.numbers[r].begin();
      const auto middle = first + metadata.headers[r].sequences;
      lengths.insert(lengths.end(), first, middle);
      costs.insert(costs.end(), middle, metadata.numbers[r].end());
      offsets.push_back(static_cast<std::int64_t>(lengths.size()));
    }
  }

  Plan plan() const {
    const PlanRequest request{
        .topology = options->topology,
        .cost = options->cost,
        .heads = options->heads,
        .lengths = lengths,
        .offsets = offsets,
        .costs = costs,
        .machine = machine,
        .max_tokens_per_rank = options->max_tokens_per_rank,
        .max_attention_tokens_per_rank = options->max_attention_tokens_per_rank,
        .budget = options->plan_budget};
    try {
      return options->balance ? make_plan(request) : make_home_plan(request);
    } catch (const Error& error) {  // every rank plans alike, and fails alike
      throw SharedError(error.what());
    }
  }
};

/// Whether MPI knows that this process may have several threads.
bool threads_allowed() {
  int provided = MPI_THREAD_SINGLE;
  return MPI_Query_thread(&provided) == MPI_SUCCESS && provided != MPI_THREAD_SINGLE;
}

}  // namespace

/// Changes in collective calls alone, but for `busy`, so that all ranks know the same.
struct Balancer::Learnt {
  std::int64_t capacity = kFirstCapacity;  ///< numbers a rank has room for in the all-gather
  std::uint64_t configuration = 0;
  SpeedEstimate speeds;
  BusyReport busy = {};  ///< of this rank, not told yet
};

struct PendingRouting::State {
  struct Planned {
    Plan plan;
    Seconds finished;
  };

  Communicator group;
  std::shared_ptr<Balancer::Learnt> learnt;
  PlanInput input;                    // numbers are added when all are there
  std::vector<std::int64_t> numbers;  // of this rank
  std::int64_t room;                  // learnt->capacity at the start
  std::optional<Gathering<std::int64_t>> gathering = {};
  std::optional<Metadata> metadata = {};
  std::future<Planned> planned = {};
  Seconds started = {};
  Seconds arrived = {};
  bool waited_for = false;

  bool all_numbers_fit() const { return metadata->most_numbers() <= room; }
  void read_metadata();
  void on_arrival() noexcept;
  void gather_rest();
  void learn_speeds();
  Routing finish();
};

void PendingRouting::State::read_metadata() {
  if (metadata) return;
  const std::vector<std::int64_t> blocks = gathering->wait();
  arrived = process_seconds();
  metadata.emplace(blocks, room);
}

/// What must happen in the same order on all ranks, and what fails, is left to finish().
void PendingRouting::State::on_arrival() noexcept {
  if (waited_for) return;
  try {
    read_metadata();
    if (metadata->has_problem(group) || !all_numbers_fit() || !threads_allowed()) return;
    PlanInput all = input;
    all.add(*metadata);
    planned = std::async(std::launch::async, [all = std::move(all)] {
      Plan plan = all.plan();
      return Planned{std::move(plan), process_seconds()};
    });
  } catch (...) {
  }
}

void PendingRouting::State::gather_rest() {
  const std::size_t sent = std::min(numbers.size(), static_cast<std::size_t>(room));
  const auto rest = group.all_gather_varying(std::span<const std::int64_t>(numbers).subspan(sent));
  auto next = rest.values.begin();
  for (std::size_t r = 0; r < metadata->numbers.size(); ++r) {
    metadata->numbers[r].insert(metadata->numbers[r].end(), next, next + rest.counts[r]);
    next += rest.counts[r];
  }
  const auto most = static_cast<std::uint64_t>(metadata->most_numbers());
  learnt->capacity = std::max(learnt->capacity, static_cast<std::int64_t>(std::bit_ceil(most)));
}

void PendingRouting::State::learn_speeds() {
  std::vector<BusyReport> reports;
  for (const RankHeader& header : metadata->headers) reports.push_back(header.busy);
  learnt->speeds.update(reports);
}

Routing PendingRouting::State::finish() {
  waited_for = true;
  const Seconds entered = process_seconds();
  read_metadata();
  metadata->check(group);
  if (!all_numbers_fit()) gather_rest();
  learn_speeds();
  Seconds seen = arrived;
  std::optional<Plan> plan;
  if (planned.valid()) {
    Planned result = planned.get();
    seen = result.finished;
    plan = std::move(result.plan);
  } else {
    input.add(*metadata);
    plan = input.plan();
  }
  group.record_hidden((seen.elapsed < entered.elapsed ? seen : entered) - started);
  return Routing(group, std::move(*plan));
}

PendingRouting::PendingRouting(std::unique_ptr<State> state) : state_(std::move(state)) {}
PendingRouting::PendingRouting(PendingRouting&&) noexcept = default;
PendingRouting& PendingRouting::operator=(PendingRouting&&) noexcept = default;
PendingRouting::~PendingRouting() = default;

Routing PendingRouting::wait() {
  if (!state_) throw Error("balancer: a pending routing can be waited for once");
  const Kokkos::Profiling::ScopedRegion region(kPrepareRegion);
  const std::unique_ptr<State> state = std::move(state_);
  return state->finish();
}

Balancer::Balancer(Communicator group, BalancerOptions options)
    : group_(std::move(group)),
      options_(std::make_shared<const BalancerOptions>(std::move(options))) {
  check_options(group_, *options_);
  learnt_ = std::make_shared<Learnt>(
      Learnt{.configuration = hash_of(*options_),
             .speeds = SpeedEstimate(initial_speeds(*options_, group_.size()))});
}

PendingRouting Balancer::start_prepare(std::span<const std::int64_t> lengths,
                                       std::span<const std::int64_t> costs) const {
  const Kokkos::Profiling::ScopedRegion region(kPrepareRegion);
  RankHeader mine = inspect(lengths, costs);
  mine.configuration = learnt_->configuration;
  mine.busy = std::exchange(learnt_->busy, {});
  std::vector<std::int64_t> numbers;
  if (mine.problem == 0) {
    numbers.assign(lengths.begin(), lengths.end());
    numbers.insert(numbers.end(), costs.begin(), costs.end());
  }
  auto state = std::make_unique<PendingRouting::State>(PendingRouting::State{
      .group = group_,
      .learnt = learnt_,
      .input = {.options = options_, .machine = machine_of(*options_, learnt_->speeds)},
      .numbers = std::move(numbers),
      .room = learnt_->capacity});
  const std::vector<std::int64_t> block = pack_block(mine, state->numbers, state->room);
  state->gathering = group_.start_all_gather(std::span<const std::int64_t>(block),
                                             [at = state.get()] { at->on_arrival(); });
  state->started = process_seconds();
  return PendingRouting(std::move(state));
}

Routing Balancer::prepare(std::span<const std::int64_t> lengths,
                          std::span<const std::int64_t> costs) const {
  return start_prepare(lengths, costs).wait();
}

void Balancer::observe(const Routing& routing, double busy_seconds) const {
  if (!(std::isfinite(busy_seconds) && busy_seconds >= 0)) {
    throw Error(
        fmt::format("balancer: {} busy seconds were observed; give a finite number of at "
                    "least 0",
                    busy_seconds));
  }
  const Plan& plan = routing.plan();
  if (plan.ranks() != group_.size()) {
    throw Error(fmt::format("balancer: a routing of {} was observed, the group has {}",
                            plural(plan.ranks(), "rank"), group_.size()));
  }
  learnt_->busy.work += plan.report().work_after[static_cast<std::size_t>(group_.rank())];
  learnt_->busy.seconds += busy_seconds;
}

std::vector<double> Balancer::speed_estimate() const { return learnt_->speeds.speeds(); }

}  // namespace knapformer
