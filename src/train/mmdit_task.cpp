// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <algorithm>
#include <knapformer/kernels/squared_error.hpp>
#include <knapformer/train/mmdit_task.hpp>

#include "train/exchanged_bytes.hpp"

namespace knapformer {

template <class T>
double MMDiTTask<T>::forward_and_backward(const Device& exec, const Batch& batch,
                                          const Routing& routing, LossMean mean,
                                          PhaseClock& clock) {
  const std::int64_t d_patch = model_.config().d_patch;
  const auto in_phase = [&clock](Phase phase) {
    return [&clock, phase](bool begins) { clock.enter(begins ? phase : Phase::kCompute); };
  };
  const ExchangeObserver on_exchange = in_phase(Phase::kExchange),
                         on_route = in_phase(Phase::kRoute);
  clock.enter(Phase::kCompute);
  const Matrix<T> out = model_.forward(exec, routing, batch.input, saved_, on_exchange, on_route);
  Matrix<T> d_out;
  arena_.lay_out(exec, [&](auto& cursor) {
    d_out = cursor.matrix(static_cast<std::int64_t>(out.extent(0)), d_patch);
  });
  const Vector<double> scales = scales_.reset(exec, batch.image_lengths, d_patch, mean);
  const double loss = [&] {
    const Kokkos::Profiling::ScopedRegion region("KnapFormer::loss");
    return kernels::squared_error<T>(exec, out, batch.targets, scales, d_out);
  }();
  model_.backward(exec, routing, d_out, saved_, on_exchange, on_route);
  return loss;
}

template <class T>
TaskCounts MMDiTTask<T>::counts(const Batch& batch, const Routing& routing) const {
  const Config& model = model_.config();
  const auto recomputed = [&](std::int64_t blocks) {
    return model.checkpoint ? std::max<std::int64_t>(blocks - 1, 0) : 0;
  };
  const auto element = static_cast<std::int64_t>(sizeof(T)), row = element * model.d_model;
  const auto tag = static_cast<std::int64_t>(4 * sizeof(std::int32_t));  // position and modality
  // As in TransformerTask, and the conditioning of sequences to their chunks and back.
  const std::int64_t conditioning = routing.sequence_rows_sent() + routing.sequence_rows_returned();
  return {.flops = model_.forward_flops(routing, batch.input) +
                   model_.backward_flops(routing, batch.input),
          .bytes_routed = routing.routed_away_rows() * (2 * row + tag) +
                          routing.routed_back_rows() * 2 * row + conditioning * row,
          .bytes_exchanged = exchanged_bytes(
              routing, element * model.d_head(), 1, model.double_blocks + model.single_blocks,
              recomputed(model.double_blocks) + recomputed(model.single_blocks))};
}

template <class T>
MemoryUse MMDiTTask<T>::memory() const {
  return {.parameters = model_.parameter_bytes(),
          .gradients = static_cast<std::int64_t>(model_.gradients().span() * sizeof(Accumulate<T>)),
          .activations = saved_.bytes(),
          .exchange = saved_.row_bytes() + arena_.bytes() + scales_.bytes()};
}

template class MMDiTTask<double>;
template class MMDiTTask<float>;
template class MMDiTTask<bfloat16>;

}  // namespace knapformer
