// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <chrono>
#include <knapformer/kernels/squared_error.hpp>
#include <knapformer/train/trainer.hpp>
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

}  // namespace

template <class T>
Trainer<T>::Trainer(Communicator world, Balancer balancer, const TransformerConfig& config,
                    std::uint64_t seed, double learning_rate)
    : world_(std::move(world)),
      balancer_(std::move(balancer)),
      model_(config, seed),
      learning_rate_(learning_rate) {}

template <class T>
StepOutcome Trainer<T>::step(const Device& exec, const Batch<T>& batch, ClockKind clock) {
  // The others wait for this rank in its group, or in the world.
  return world_.guard(
      [&] { return balancer_.group().guard([&] { return try_step(exec, batch, clock); }); });
}

template <class T>
StepOutcome Trainer<T>::try_step(const Device& exec, const Batch<T>& batch, ClockKind clock_kind) {
  PhaseClock clock(exec, clock_kind);
  world_.barrier();
  const auto start = std::chrono::steady_clock::now();

  clock.enter(Phase::kPlan);
  const Routing routing = balancer_.prepare(batch.lengths);
  const std::int64_t home_tokens = routing.home_rows();
  double tokens = 0;
  for (const std::int64_t n : world_.all_gather(std::span(&home_tokens, 1))) {
    tokens += static_cast<double>(n);
  }

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

  clock.enter(Phase::kWait);
  world_.barrier();
  clock.enter(Phase::kReduce);
  world_.all_reduce_sum(exec, model_.gradients());
  clock.enter(Phase::kCompute);
  descent::update<T>(exec, learning_rate_, model_.gradients(), model_.parameters());
  clock.stop();

  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return {.routing = routing,
          .clock = clock,
          .seconds = seconds.count(),
          .loss = loss,
          .flops = model_.forward_flops(routing) + model_.backward_flops(routing),
          .bytes_routed = bytes_routed<T>(routing, model_.config()),
          .bytes_exchanged = bytes_exchanged<T>(routing, model_.config())};
}

template class Trainer<double>;
template class Trainer<float>;

}  // namespace knapformer
