// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <knapformer/kernels/squared_error.hpp>
#include <knapformer/train/transformer_task.hpp>
#include <tuple>

#include "train/exchanged_bytes.hpp"

namespace knapformer {

template <class T>
double TransformerTask<T>::forward_and_backward(const Device& exec, const Batch& batch,
                                                const Routing& routing, LossMean mean,
                                                PhaseClock& clock) {
  TokenBuffers<T>& rows = buffers_;
  clock.enter(Phase::kRoute);
  rows.reset(exec, routing, batch.lengths, model_.config().d_model, mean);
  routing.route_into(exec, std::tie(rows.x, rows.positions), batch.tokens, batch.positions);
  clock.enter(Phase::kCompute);
  const ExchangeObserver observer = [&clock](bool begins) {
    clock.enter(begins ? Phase::kExchange : Phase::kCompute);
  };
  const auto y = model_.forward(exec, routing, rows.x, rows.positions, saved_, observer);
  clock.enter(Phase::kRoute);
  routing.reverse_route_into(exec, std::tie(rows.output), y);

  clock.enter(Phase::kCompute);
  const double loss = [&] {
    const Kokkos::Profiling::ScopedRegion region("KnapFormer::loss");
    return kernels::squared_error<T>(exec, rows.output, batch.targets, rows.scales, rows.d_output);
  }();

  clock.enter(Phase::kRoute);
  routing.reverse_route_adjoint_into(exec, std::tie(rows.d_y), rows.d_output);
  clock.enter(Phase::kCompute);
  const auto dx = model_.backward(exec, routing, rows.d_y, saved_, observer);
  clock.enter(Phase::kRoute);
  // What embeds the tokens runs on their home rank, and so does its backward pass.
  routing.route_adjoint_into(exec, std::tie(rows.output), dx);
  return loss;
}

template <class T>
TaskCounts TransformerTask<T>::counts(const Batch&, const Routing& routing) const {
  const Config& model = model_.config();
  const std::int64_t recomputed = model.checkpoint && model.layers > 0 ? model.layers - 1 : 0;
  const auto row = static_cast<std::int64_t>(sizeof(T)) * model.d_model;
  const auto position = static_cast<std::int64_t>(3 * sizeof(std::int32_t));
  // Tokens with their positions and the gradient of the output go out; the output and the gradient
  // of the tokens come back.
  return {.flops = model_.forward_flops(routing) + model_.backward_flops(routing),
          .bytes_routed = routing.routed_away_rows() * (2 * row + position) +
                          routing.routed_back_rows() * 2 * row,
          .bytes_exchanged =
              exchanged_bytes(routing, static_cast<std::int64_t>(sizeof(T)) * model.d_head(),
                              model.queries_per_key(), model.layers, recomputed)};
}

template <class T>
MemoryUse TransformerTask<T>::memory() const {
  return {.parameters = model_.parameter_bytes(),
          .gradients = static_cast<std::int64_t>(model_.gradients().span() * sizeof(Accumulate<T>)),
          .activations = saved_.bytes(),
          .exchange = buffers_.bytes()};
}

template class TransformerTask<double>;
template class TransformerTask<float>;
template class TransformerTask<bfloat16>;

}  // namespace knapformer
