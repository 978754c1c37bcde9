// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <algorithm>
#include <iterator>
#include <knapformer/kernels/gather_rows.hpp>
#include <knapformer/kernels/rope.hpp>
#include <knapformer/model/stream_stack.hpp>
#include <utility>

#include "model/require_rows.hpp"

namespace knapformer {
namespace {

/// Parameters of one block after another.
template <class T>
class Slices {
 public:
  explicit Slices(const Vector<T>& flat) : flat_(flat) {}
  Vector<T> next(std::int64_t size) {
    const std::int64_t first = used_;
    used_ += size;
    return Kokkos::subview(flat_, Kokkos::pair<std::int64_t, std::int64_t>(first, used_));
  }

 private:
  Vector<T> flat_;
  std::int64_t used_ = 0;
};

}  // namespace

template <class T>
std::int64_t StreamSaved<T>::bytes() const {
  std::int64_t bytes = arena_.bytes() + scratch_.bytes() + attention_.bytes() + order_.bytes();
  for (const auto& activations : double_activations_) bytes += activations.bytes();
  for (const auto& activations : single_activations_) bytes += activations.bytes();
  return bytes;
}

template <class T>
StreamStack<T>::StreamStack(const MMDiTConfig& config, const Vector<T>& parameters,
                            const Vector<Accumulate<T>>& gradients)
    : config_(config) {
  check(config_);
  const std::int64_t double_size = total_size(double_stream_parameters(config_));
  const std::int64_t single_size = total_size(single_stream_parameters(config_));
  const std::int64_t size =
      config_.double_blocks * double_size + config_.single_blocks * single_size;
  for (const std::size_t given : {parameters.extent(0), gradients.extent(0)}) {
    if (static_cast<std::int64_t>(given) != size) {
      throw Error(fmt::format("stream stack: {} parameters given, expected {}", given, size));
    }
  }
  Slices<T> p(parameters);
  Slices<Accumulate<T>> g(gradients);
  for (std::int64_t b = 0; b < config_.double_blocks; ++b) {
    double_blocks_.emplace_back(config_, p.next(double_size), g.next(double_size));
    double_regions_.push_back(fmt::format("KnapFormer::double block {}", b));
  }
  for (std::int64_t b = 0; b < config_.single_blocks; ++b) {
    single_blocks_.emplace_back(config_, p.next(single_size), g.next(single_size));
    single_regions_.push_back(fmt::format("KnapFormer::single block {}", b));
  }
}

template <class T>
void StreamStack<T>::lay_out(const Device& exec, const Routing& routing,
                             StreamSaved<T>& saved) const {
  const std::int64_t rows = routing.routed_rows(), d = config_.d_model;
  saved.double_inputs_.resize(double_blocks_.size() + 1);
  saved.single_inputs_.resize(single_blocks_.size() + 1);
  saved.arena_.lay_out(exec, [&](auto& cursor) {
    saved.rope_ = cursor.wide_matrix(rows, config_.d_head());
    saved.d_conditioning_ = cursor.matrix(std::ssize(routing.chunks()), d);
    saved.gradient_ = cursor.matrix(rows, d);
    saved.sorted_gradient_ = cursor.matrix(rows, d);
    for (Matrix<T>& input : saved.double_inputs_) input = cursor.matrix(rows, d);
    for (Matrix<T>& input : saved.single_inputs_) input = cursor.matrix(rows, d);
  });
  const auto kept = [&](std::size_t blocks) {
    return config_.checkpoint ? std::min<std::size_t>(blocks, 1) : blocks;
  };
  saved.scratch_.resize(exec, config_, routing, saved.attention_);
  saved.double_activations_.resize(kept(double_blocks_.size()));
  saved.single_activations_.resize(kept(single_blocks_.size()));
  for (auto& activations : saved.double_activations_) activations.resize(exec, config_, routing);
  for (auto& activations : saved.single_activations_) activations.resize(exec, config_, routing);
}

template <class T>
StreamContext<T> StreamStack<T>::context(const Device& exec, const Routing& routing,
                                         const StreamSaved<T>& saved,
                                         const ExchangeObserver& observer) const {
  return {{exec, routing, saved.attention_, saved.rope_, observer},
          saved.order_,
          saved.conditioning_,
          saved.d_conditioning_};
}

template <class T>
Matrix<T> StreamStack<T>::forward(const Device& exec, const Routing& routing, const Matrix<T>& x,
                                  const Matrix<T>& conditioning, const Modalities& modalities,
                                  const Positions& positions, StreamSaved<T>& saved,
                                  const ExchangeObserver& observer) const {
  const Kokkos::Profiling::ScopedRegion region("KnapFormer::StreamStack::forward");
  const std::int64_t rows = routing.routed_rows();
  model::require_heads(routing, "stream stack", config_.heads);
  model::require_rows(routing, "stream stack: x", x, rows, config_.d_model);
  model::require_rows(routing, "stream stack: conditioning", conditioning,
                      std::ssize(routing.chunks()), config_.d_model);
  model::require_rows(routing, "stream stack: positions", positions, rows, 3);

  saved.plan_ = routing.plan().hash();
  saved.order_ = make_stream_order(exec, routing, modalities, std::move(saved.order_));
  saved.attention_ = make_routed_attention(exec, routing, false, 1, std::move(saved.attention_));
  saved.conditioning_ = conditioning;
  lay_out(exec, routing, saved);
  kernels::rope_table(exec, positions, config_.rope_base, config_.rope_axes, saved.rope_);
  const StreamContext<T> shared = context(exec, routing, saved, observer);
  const auto held = [&](std::size_t block) { return config_.checkpoint ? 0 : block; };

  kernels::gather_rows(exec, saved.order_.rows, x, saved.double_inputs_[0]);
  for (std::size_t b = 0; b < double_blocks_.size(); ++b) {
    const Kokkos::Profiling::ScopedRegion block(double_regions_[b]);
    const auto& activations = saved.double_activations_[held(b)];
    double_blocks_[b].activate(shared, saved.double_inputs_[b], saved.scratch_, activations);
    double_blocks_[b].finish(shared, activations, saved.double_inputs_[b + 1]);
  }
  kernels::scatter_rows(exec, saved.order_.rows, saved.double_inputs_.back(),
                        saved.single_inputs_[0]);
  for (std::size_t b = 0; b < single_blocks_.size(); ++b) {
    const Kokkos::Profiling::ScopedRegion block(single_regions_[b]);
    const auto& activations = saved.single_activations_[held(b)];
    single_blocks_[b].activate(shared, saved.single_inputs_[b], saved.scratch_, activations);
    single_blocks_[b].finish(shared, saved.single_inputs_[b], activations,
                             saved.single_inputs_[b + 1]);
  }
  return saved.single_inputs_.back();
}

template <class T>
typename StreamStack<T>::Gradients StreamStack<T>::backward(
    const Device& exec, const Routing& routing, const Matrix<T>& dy, StreamSaved<T>& saved,
    const ExchangeObserver& observer) const {
  const Kokkos::Profiling::ScopedRegion region("KnapFormer::StreamStack::backward");
  if (saved.plan_ != routing.plan().hash() ||
      saved.double_inputs_.size() != double_blocks_.size() + 1 ||
      saved.single_inputs_.size() != single_blocks_.size() + 1) {
    routing.group().fail(
        "stream stack: backward was given what no forward pass of this routing has saved");
  }
  model::require_rows(routing, "stream stack: dy", dy, routing.routed_rows(), config_.d_model);
  const StreamContext<T> shared = context(exec, routing, saved, observer);
  // Recomputes all blocks but the last of a kind, whose activations are still there.
  const auto go_back = [&](const auto& blocks, const auto& regions, const auto& inputs,
                           const auto& all, const Matrix<T>& gradient) {
    for (std::size_t b = blocks.size(); b-- > 0;) {
      const Kokkos::Profiling::ScopedRegion block(regions[b]);
      const auto& activations = all[config_.checkpoint ? 0 : b];
      if (config_.checkpoint && b + 1 < blocks.size()) {
        blocks[b].activate(shared, inputs[b], saved.scratch_, activations);
      }
      blocks[b].backward(shared, inputs[b], activations, saved.scratch_, gradient);
    }
  };
  Kokkos::deep_copy(exec, saved.d_conditioning_, T(0));
  Kokkos::deep_copy(exec, saved.gradient_, dy);
  go_back(single_blocks_, single_regions_, saved.single_inputs_, saved.single_activations_,
          saved.gradient_);
  kernels::gather_rows(exec, saved.order_.rows, saved.gradient_, saved.sorted_gradient_);
  go_back(double_blocks_, double_regions_, saved.double_inputs_, saved.double_activations_,
          saved.sorted_gradient_);
  kernels::scatter_rows(exec, saved.order_.rows, saved.sorted_gradient_, saved.gradient_);
  saved.plan_.reset();  // used up
  return {saved.gradient_, saved.d_conditioning_};
}

template class StreamSaved<float>;
template class StreamSaved<double>;
template class StreamSaved<bfloat16>;
template class StreamStack<float>;
template class StreamStack<double>;
template class StreamStack<bfloat16>;

}  // namespace knapformer
