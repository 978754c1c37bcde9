// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <chrono>
#include <functional>
#include <knapformer/comm/shared_error.hpp>
#include <knapformer/train/trainer.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "plan/message.hpp"

namespace knapformer {

namespace descent {

/// Divides the gradients by `count`, and takes a step down.
template <class T>
void update(const Device& exec, double rate, double count, const Vector<T>& gradients,
            const Vector<T>& parameters) {
  const T step = static_cast<T>(rate), scale = static_cast<T>(count > 0 ? 1 / count : 0);
  Kokkos::parallel_for(
      "KnapFormer::gradient_descent",
      Kokkos::RangePolicy<Device, Kokkos::IndexType<std::int64_t>>(
          exec, 0, static_cast<std::int64_t>(parameters.extent(0))),
      KOKKOS_LAMBDA(const std::int64_t i) {
        gradients(i) *= scale;
        parameters(i) -= step * gradients(i);
      });
}

}  // namespace descent

namespace {

/// Throws Error unless a step begins with the sequences that the step before was told of.
void check_announced(std::span<const std::int64_t> announced, std::span<const std::int64_t> given) {
  if (given.size() != announced.size()) {
    throw Error(fmt::format("trainer: a step begins with {}, but the step before was told of {}",
                            plural(std::ssize(given), "sequence"), announced.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == announced[i]) continue;
    throw Error(
        fmt::format("trainer: sequence {} of a step has {}, but the step before was told of {}", i,
                    plural(given[i], "token"), announced[i]));
  }
}

/// What a rank has waited in its group and in the world, which may be the same communicator.
std::function<Seconds()> waited_in(const Communicator& world, const Communicator& group) {
  return [world, group] {
    Seconds waited = group.times().waited;
    if (world.mpi() != group.mpi()) waited += world.times().waited;
    return waited;
  };
}

/// What ranks must agree on, in words.
std::string describe(const TrainerOptions& options) {
  return fmt::format("seed {}, learning rate {}, {}, a loss over {}", options.seed,
                     options.learning_rate, plural(options.micro_batches, "micro-batch"),
                     name_of(options.loss_mean));
}

void check_options(const Communicator& world, const TrainerOptions& options) {
  const std::string mine = describe(options);
  const auto all = world.all_gather_varying(std::span<const char>(mine));
  std::string_view rest(all.values.data(), all.values.size());
  const std::string first(rest.substr(0, static_cast<std::size_t>(all.counts[0])));
  for (std::size_t r = 0; r < all.counts.size(); ++r) {
    const std::string_view theirs = rest.substr(0, static_cast<std::size_t>(all.counts[r]));
    rest.remove_prefix(theirs.size());
    if (theirs == first) continue;
    throw SharedError(fmt::format("trainer: the options differ: rank {} has {}; rank {} has {}",
                                  world.root_rank(0), first, world.root_rank(static_cast<int>(r)),
                                  theirs));
  }
  if (options.micro_batches >= 1) return;
  throw SharedError(
      fmt::format("trainer: {} micro-batches; give at least 1", options.micro_batches));
}

}  // namespace

template <class T, template <class> class Task>
Trainer<T, Task>::Trainer(Communicator world, Balancer balancer, const Config& config,
                          const TrainerOptions& options)
    : world_(std::move(world)),
      balancer_(std::move(balancer)),
      task_(config, options.seed),
      options_(options) {
  check_options(world_, options_);
}

template <class T, template <class> class Task>
StepOutcome Trainer<T, Task>::step(const Device& exec, std::span<const Batch> micro_batches,
                                   std::optional<std::span<const std::int64_t>> next_lengths,
                                   const ClockOptions& clock) {
  // The others wait for this rank in its group, or in the world.
  return world_.guard([&] {
    return balancer_.group().guard(
        [&] { return try_step(exec, micro_batches, next_lengths, clock); });
  });
}

template <class T, template <class> class Task>
void Trainer<T, Task>::plan_ahead(std::span<const std::int64_t> lengths) {
  ahead_.emplace(Ahead{{lengths.begin(), lengths.end()}, balancer_.start_prepare(lengths)});
}

/// The routing that was planned ahead, or one whose planning begins now.
template <class T, template <class> class Task>
Routing Trainer<T, Task>::take_ahead(const Batch& batch) {
  if (!ahead_) return balancer_.prepare(batch.lengths);
  check_announced(ahead_->lengths, batch.lengths);
  return std::exchange(ahead_, std::nullopt)->routing.wait();
}

template <class T, template <class> class Task>
StepOutcome Trainer<T, Task>::try_step(const Device& exec, std::span<const Batch> micro_batches,
                                       std::optional<std::span<const std::int64_t>> next_lengths,
                                       const ClockOptions& clock_options) {
  if (std::ssize(micro_batches) != options_.micro_batches) {
    throw Error(fmt::format("trainer: a step was given {}; its options say {}",
                            plural(std::ssize(micro_batches), "micro-batch"),
                            options_.micro_batches));
  }
  const Kokkos::Profiling::ScopedRegion step_region("KnapFormer::step");
  const Communicator& group = balancer_.group();
  PhaseClock clock(exec, clock_options, waited_in(world_, group));
  const auto start = std::chrono::steady_clock::now();
  StepOutcome outcome;
  Seconds hidden_plan;
  const Seconds hidden_before = group.times().hidden;
  double count = 0;
  clock.enter(Phase::kCompute);
  Kokkos::deep_copy(exec, model().gradients(), Accumulate<T>(0));
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    const Kokkos::Profiling::ScopedRegion region("KnapFormer::micro_batch");
    const Batch& batch = micro_batches[i];
    clock.enter(Phase::kPlan);
    const Seconds before = group.times().hidden;
    const Routing& routing = outcome.routings.emplace_back(take_ahead(batch));
    hidden_plan += group.times().hidden - before;
    const bool is_last = i + 1 == micro_batches.size();
    if (!is_last) plan_ahead(micro_batches[i + 1].lengths);
    if (is_last && next_lengths) plan_ahead(*next_lengths);
    count += Task<T>::count(batch, options_.loss_mean);
    outcome.loss += task_.forward_and_backward(exec, batch, routing, options_.loss_mean, clock);
  }

  clock.enter(Phase::kWait);
  const double world_count = meet(count);
  descend(exec, world_count, clock);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  outcome.seconds = seconds.count();
  outcome.phases = clock.times();
  outcome.hidden_plan = clock.of_kind(hidden_plan);
  outcome.hidden_exchange = clock.of_kind(group.times().hidden - hidden_before - hidden_plan);
  outcome.loss = world_count > 0 ? outcome.loss / world_count : 0;
  report(micro_batches, outcome);
  return outcome;
}

/// Sums the gradients over the world and takes a step down.
template <class T, template <class> class Task>
void Trainer<T, Task>::descend(const Device& exec, double world_count, PhaseClock& clock) {
  clock.enter(Phase::kReduce);
  {
    const Kokkos::Profiling::ScopedRegion region("KnapFormer::reduce_gradients");
    world_.all_reduce_sum(exec, model().gradients());
  }
  clock.enter(Phase::kCompute);
  {
    const Kokkos::Profiling::ScopedRegion region("KnapFormer::optimizer");
    descent::update<Accumulate<T>>(exec, options_.learning_rate, world_count, model().gradients(),
                                   model().parameters());
  }
  clock.stop();
}

/// What follows from the routings and times of a step.
template <class T, template <class> class Task>
void Trainer<T, Task>::report(std::span<const Batch> micro_batches, StepOutcome& outcome) const {
  outcome.memory = memory();
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    const TaskCounts counts = task_.counts(micro_batches[i], outcome.routings[i]);
    outcome.flops += counts.flops;
    outcome.bytes_routed += counts.bytes_routed;
    outcome.bytes_exchanged += counts.bytes_exchanged;
  }
  if (balancer_.options().adapt_to_speed) {  // the balancer adds up what it is told
    for (const Routing& routing : outcome.routings) {
      const bool is_last = &routing == &outcome.routings.back();
      balancer_.observe(routing, is_last ? outcome.phases.busy() : 0);
    }
  }
  const auto me = static_cast<std::size_t>(balancer_.group().rank());
  outcome.speed_estimate = balancer_.speed_estimate()[me];
}

template <class T, template <class> class Task>
MemoryUse Trainer<T, Task>::memory() const {
  MemoryUse use = task_.memory();
  use.scratch = balancer_.group().scratch_bytes();
  return use;
}

/// Waits for the slowest rank, and returns the sum of what all ranks count.
template <class T, template <class> class Task>
double Trainer<T, Task>::meet(double count) {
  struct Fact {
    double count;
    std::int64_t told;  // the lengths of the next step
  };
  const Fact mine{count, ahead_.has_value()};
  double sum = 0;
  std::optional<std::size_t> told, not_told;
  const std::vector<Fact> all = world_.all_gather(std::span(&mine, 1));
  for (std::size_t r = 0; r < all.size(); ++r) {
    auto& found = all[r].told ? told : not_told;
    if (!found) found = r;
    sum += all[r].count;
  }
  if (told && not_told) {
    const auto name = [&](std::size_t r) { return world_.root_rank(static_cast<int>(r)); };
    throw SharedError(fmt::format(
        "trainer: rank {} was told the lengths of the next step and rank {} was not; tell them on "
        "all ranks or on none",
        name(*told), name(*not_told)));
  }
  return sum;
}

template class Trainer<double>;
template class Trainer<float>;
template class Trainer<bfloat16>;
template class Trainer<double, MMDiTTask>;
template class Trainer<float, MMDiTTask>;
template class Trainer<bfloat16, MMDiTTask>;

}  // namespace knapformer
