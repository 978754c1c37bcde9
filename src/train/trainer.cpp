// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <knapformer/comm/shared_error.hpp>
#include <knapformer/kernels/squared_error.hpp>
#include <knapformer/train/trainer.hpp>
#include <limits>
#include <tuple>
#include <utility>

namespace knapformer {

namespace descent {

template <class T>
void update(const Device& exec, double rate, const Vector<T>& gradients,
            const Vector<T>& parameters) {
  const T step = static_cast<T>(rate);
  Kokkos::parallel_for(
      "KnapFormer::gradient_descent",
      Kokkos::RangePolicy<Device, Kokkos::IndexType<std::int64_t>>(
          exec, 0, static_cast<std::int64_t>(parameters.extent(0))),
      KOKKOS_LAMBDA(const std::int64_t i) { parameters(i) -= step * gradients(i); });
}

}  // namespace descent

namespace {

/// Tokens with their positions and the gradient of the output go out; the output and the gradient
/// of the tokens come back.
template <class T>
std::int64_t bytes_routed(const Routing& routing, const TransformerConfig& model) {
  const auto row = static_cast<std::int64_t>(sizeof(T)) * model.d_model;
  const auto position = static_cast<std::int64_t>(3 * sizeof(std::int32_t));
  return routing.routed_away_rows() * (2 * row + position) + routing.routed_back_rows() * 2 * row;
}

/// In each block q, k and v go to their heads and the output comes back; so do their gradients, the
/// other way; and q, k, v and the output once more in every block that is recomputed: all but the
/// last.
template <class T>
std::int64_t bytes_exchanged(const Routing& routing, const TransformerConfig& model) {
  const auto row = static_cast<std::int64_t>(sizeof(T)) * model.d_head();
  const std::int64_t sent = routing.attention_rows_sent(), back = routing.attention_rows_returned();
  const std::int64_t recomputed = model.checkpoint && model.layers > 0 ? model.layers - 1 : 0;
  return row * ((model.layers + recomputed) * (3 * sent + back) + model.layers * (sent + 3 * back));
}

double sum_of(std::span<const std::int64_t> lengths) {
  double sum = 0;  // bad lengths, which are found elsewhere, may have any sum
  for (const std::int64_t n : lengths) sum += static_cast<double>(n);
  return sum;
}

/// Throws Error unless a batch has the sequences that the step before was told of.
void check_announced(std::span<const std::int64_t> announced, std::span<const std::int64_t> given) {
  if (given.size() != announced.size()) {
    throw Error(fmt::format(
        "trainer: a step has a batch of {} sequences, but the step before was told of {}",
        given.size(), announced.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == announced[i]) continue;
    throw Error(fmt::format(
        "trainer: sequence {} of a step has {} tokens, but the step before was told of {}", i,
        given[i], announced[i]));
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

}  // namespace

template <class T>
Trainer<T>::Trainer(Communicator world, Balancer balancer, const TransformerConfig& config,
                    std::uint64_t seed, double learning_rate)
    : world_(std::move(world)),
      balancer_(std::move(balancer)),
      model_(config, seed),
      learning_rate_(learning_rate) {}

template <class T>
StepOutcome Trainer<T>::step(const Device& exec, const Batch<T>& batch,
                             std::optional<std::span<const std::int64_t>> next_lengths,
                             const ClockOptions& clock) {
  // The others wait for this rank in its group, or in the world.
  return world_.guard([&] {
    return balancer_.group().guard([&] { return try_step(exec, batch, next_lengths, clock); });
  });
}

/// The step that was planned ahead, or one whose planning begins now.
template <class T>
typename Trainer<T>::Ahead Trainer<T>::take_ahead(const Batch<T>& batch) {
  if (ahead_) {
    check_announced(ahead_->lengths, batch.lengths);
    return *std::exchange(ahead_, std::nullopt);
  }
  double tokens = 0;
  const double mine = sum_of(batch.lengths);
  for (const double theirs : world_.all_gather(std::span(&mine, 1))) tokens += theirs;
  return {batch.lengths, balancer_.start_prepare(batch.lengths), tokens};
}

template <class T>
StepOutcome Trainer<T>::try_step(const Device& exec, const Batch<T>& batch,
                                 std::optional<std::span<const std::int64_t>> next_lengths,
                                 const ClockOptions& clock_options) {
  const Communicator& group = balancer_.group();
  PhaseClock clock(exec, clock_options, waited_in(world_, group));
  const auto start = std::chrono::steady_clock::now();

  clock.enter(Phase::kPlan);
  const Seconds hidden_before = group.times().hidden;
  Ahead now = take_ahead(batch);
  const Routing routing = now.routing.wait();
  const Seconds hidden_planned = group.times().hidden;
  if (next_lengths) {
    ahead_.emplace(Ahead{{next_lengths->begin(), next_lengths->end()},
                         balancer_.start_prepare(*next_lengths)});
  }

  const double loss = forward_and_backward(exec, batch, routing, now.tokens, clock);

  clock.enter(Phase::kWait);
  meet();
  clock.enter(Phase::kReduce);
  world_.all_reduce_sum(exec, model_.gradients());
  clock.enter(Phase::kCompute);
  descent::update<T>(exec, learning_rate_, model_.gradients(), model_.parameters());
  clock.stop();

  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (balancer_.options().adapt_to_speed) balancer_.observe(routing, clock.times().busy());
  return {.routing = routing,
          .phases = clock.times(),
          .hidden_plan = clock.of_kind(hidden_planned - hidden_before),
          .hidden_exchange = clock.of_kind(group.times().hidden - hidden_planned),
          .seconds = seconds.count(),
          .loss = loss,
          .flops = model_.forward_flops(routing) + model_.backward_flops(routing),
          .bytes_routed = bytes_routed<T>(routing, model_.config()),
          .bytes_exchanged = bytes_exchanged<T>(routing, model_.config()),
          .speed_estimate = balancer_.speed_estimate()[static_cast<std::size_t>(group.rank())]};
}

/// Leaves the gradients of this rank in the model, and returns its part of the loss.
template <class T>
double Trainer<T>::forward_and_backward(const Device& exec, const Batch<T>& batch,
                                        const Routing& routing, double tokens, PhaseClock& clock) {
  clock.enter(Phase::kRoute);
  const auto [x, positions] = routing.route(exec, batch.tokens, batch.positions);
  clock.enter(Phase::kCompute);
  const ExchangeObserver observer = [&clock](bool begins) {
    clock.enter(begins ? Phase::kExchange : Phase::kCompute);
  };
  const auto y = model_.forward(exec, routing, x, positions, saved_, observer);
  clock.enter(Phase::kRoute);
  const auto output = routing.reverse_route(exec, y);

  clock.enter(Phase::kCompute);
  Matrix<T> gradient(
      Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "KnapFormer::loss_gradient"),
      output.extent(0), output.extent(1));
  const double scale = tokens > 0 ? 1 / (tokens * static_cast<double>(model_.config().d_model)) : 0;
  const double loss = kernels::squared_error<T>(exec, output, batch.targets, scale, gradient);

  clock.enter(Phase::kRoute);
  const auto routed_gradient = routing.reverse_route_adjoint(exec, gradient);
  clock.enter(Phase::kCompute);
  Kokkos::deep_copy(exec, model_.gradients(), T(0));
  const auto dx = model_.backward(exec, routing, routed_gradient, saved_, observer);
  clock.enter(Phase::kRoute);
  // What embeds the tokens runs on their home rank, and so does its backward pass.
  routing.route_adjoint(exec, dx);
  return loss;
}

/// Waits for the slowest rank, and learns how many tokens the world has in the next step.
template <class T>
void Trainer<T>::meet() {
  constexpr double kNotTold = -std::numeric_limits<double>::infinity();
  const double mine = ahead_ ? sum_of(ahead_->lengths) : kNotTold;
  double tokens = 0;
  std::optional<std::size_t> told, not_told;
  const std::vector<double> all = world_.all_gather(std::span(&mine, 1));
  for (std::size_t r = 0; r < all.size(); ++r) {
    auto& found = all[r] == kNotTold ? not_told : told;
    if (!found) found = r;
    tokens += all[r];
  }
  if (told && not_told) {
    const auto name = [&](std::size_t r) { return world_.root_rank(static_cast<int>(r)); };
    throw SharedError(fmt::format(
        "trainer: rank {} was told the lengths of the next step and rank {} was not; tell them on "
        "all ranks or on none",
        name(*told), name(*not_told)));
  }
  if (ahead_) ahead_->tokens = tokens;
}

template class Trainer<double>;
template class Trainer<float>;

}  // namespace knapformer
