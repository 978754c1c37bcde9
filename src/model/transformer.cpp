// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <knapformer/kernels/rope.hpp>
#include <knapformer/model/transformer.hpp>
#include <utility>

#include "model/initialize.hpp"
#include "model/range.hpp"
#include "model/require_rows.hpp"
#include "model/rounded.hpp"

namespace knapformer {
namespace {

/// FLOPs of one block, forward.
struct BlockFlops {
  double attention = 0;
  double down = 0;   ///< the last layer, which recomputation leaves out
  double other = 0;  ///< the other matrix products
};

BlockFlops flops_of(const TransformerConfig& config, const Routing& routing) {
  const auto rows = static_cast<double>(routing.routed_rows());
  const auto d = static_cast<double>(config.d_model), d_ffn = static_cast<double>(config.d_ffn);
  BlockFlops flops;
  flops.down = 2 * rows * d * d_ffn;
  flops.other = 2 * rows * d * (static_cast<double>(config.d_qkv()) + d + 2 * d_ffn);
  for (const AttentionProblem& problem : routing.attention_problems()) {
    const auto length = static_cast<double>(problem.length);
    flops.attention += 4 * length * length * static_cast<double>(config.d_head()) *
                       static_cast<double>(problem.heads * config.queries_per_key()) *
                       (config.causal ? 0.5 : 1);
  }
  return flops;
}

}  // namespace

template <class T>
std::int64_t Saved<T>::bytes() const {
  std::int64_t bytes = arena_.bytes() + scratch_.bytes() + attention_.bytes();
  for (const BlockActivations<T>& activations : activations_) bytes += activations.bytes();
  return bytes;
}

template <class T>
Transformer<T>::Transformer(const TransformerConfig& config, std::uint64_t seed) : config_(config) {
  check(config_);
  layout_ = block_parameters(config_);
  block_size_ = total_size(layout_);
  const std::int64_t size = config_.layers * block_size_;
  const Device exec;
  using A = Accumulate<T>;
  parameters_ = Vector<A>(Kokkos::view_alloc(exec, "KnapFormer::parameters"), size);
  gradients_ = Vector<A>(Kokkos::view_alloc(exec, "KnapFormer::gradients"), size);
  rounded_ = model::rounded_like<T>(exec, parameters_);
  for (std::int64_t block = 0; block < config_.layers; ++block) {
    const std::int64_t first = block * block_size_;
    for (const ParameterInfo& info : layout_) {
      const auto values =
          Kokkos::subview(parameters_, model::range(first + info.offset, info.size()));
      if (info.columns > 1) {
        model::fill_random<A>(exec, seed, static_cast<std::uint64_t>(first + info.offset),
                              model::kDeviation, values);
      } else if (info.name.ends_with("norm/weight")) {
        Kokkos::deep_copy(exec, values, A(1));
      }
    }
    blocks_.emplace_back(config_, Kokkos::subview(rounded_, model::range(first, block_size_)),
                         Kokkos::subview(gradients_, model::range(first, block_size_)));
    regions_.push_back(fmt::format("KnapFormer::block {}", block));
  }
  exec.fence("KnapFormer::parameters");  // any instance may use them from now on
}

template <class T>
Vector<Accumulate<T>> Transformer<T>::named(const Vector<Accumulate<T>>& all, std::int64_t block,
                                            std::string_view name) const {
  if (block < 0 || block >= config_.layers) {
    throw Error(fmt::format("transformer: there is no block {} of {}", block, config_.layers));
  }
  for (const ParameterInfo& info : layout_) {
    if (info.name == name) {
      return Kokkos::subview(all, model::range(block * block_size_ + info.offset, info.size()));
    }
  }
  throw Error(fmt::format("transformer: a block has no parameter \"{}\"", name));
}

template <class T>
Vector<Accumulate<T>> Transformer<T>::parameter(std::int64_t block, std::string_view name) const {
  return named(parameters_, block, name);
}

template <class T>
Vector<Accumulate<T>> Transformer<T>::gradient(std::int64_t block, std::string_view name) const {
  return named(gradients_, block, name);
}

template <class T>
std::int64_t Transformer<T>::parameter_bytes() const {
  const bool shared = std::is_same_v<T, Accumulate<T>>;
  return static_cast<std::int64_t>(parameters_.span() * sizeof(Accumulate<T>) +
                                   (shared ? 0 : rounded_.span() * sizeof(T)));
}

template <class T>
BlockContext<T> Transformer<T>::context(const Device& exec, const Routing& routing,
                                        const Saved<T>& saved,
                                        const ExchangeObserver& observer) const {
  return {exec, routing, saved.attention_, saved.rope_, observer};
}

template <class T>
Matrix<T> Transformer<T>::forward(const Device& exec, const Routing& routing, const Matrix<T>& x,
                                  const Positions& positions, Saved<T>& saved,
                                  const ExchangeObserver& observer) const {
  const Kokkos::Profiling::ScopedRegion region("KnapFormer::Transformer::forward");
  const std::int64_t rows = routing.routed_rows();
  model::require_heads(routing, "transformer", config_.plan_heads());
  model::require_rows(routing, "transformer: x", x, rows, config_.d_model);
  model::require_rows(routing, "transformer: positions", positions, rows, 3);

  const auto layers = static_cast<std::size_t>(config_.layers);
  saved.plan_ = routing.plan().hash();
  saved.inputs_.resize(layers + 1);
  saved.inputs_[0] = x;
  saved.arena_.lay_out(exec, [&](auto& cursor) {
    saved.rope_ = cursor.wide_matrix(rows, config_.d_head());
    saved.gradient_ = cursor.matrix(rows, config_.d_model);
    for (std::size_t l = 1; l <= layers; ++l)
      saved.inputs_[l] = cursor.matrix(rows, config_.d_model);
  });
  saved.attention_ = make_routed_attention(exec, routing, config_.causal, config_.queries_per_key(),
                                           std::move(saved.attention_));
  saved.scratch_.resize(exec, config_, routing, saved.attention_);
  saved.activations_.resize(config_.checkpoint ? std::min<std::size_t>(layers, 1) : layers);
  for (auto& activations : saved.activations_) activations.resize(exec, config_, routing);

  model::round_parameters(exec, parameters_, rounded_);
  kernels::rope_table(exec, positions, config_.rope_base, {config_.d_head(), 0, 0}, saved.rope_);
  const BlockContext<T> shared = context(exec, routing, saved, observer);
  for (std::size_t l = 0; l < layers; ++l) {
    const Kokkos::Profiling::ScopedRegion block(regions_[l]);
    BlockActivations<T>& activations = saved.activations_[config_.checkpoint ? 0 : l];
    blocks_[l].activate(shared, saved.inputs_[l], saved.scratch_, activations);
    blocks_[l].finish(shared, activations, saved.inputs_[l + 1]);
  }
  saved.held_block_ = config_.layers - 1;
  return saved.inputs_[layers];
}

template <class T>
Matrix<T> Transformer<T>::backward(const Device& exec, const Routing& routing, const Matrix<T>& dy,
                                   Saved<T>& saved, const ExchangeObserver& observer) const {
  const Kokkos::Profiling::ScopedRegion region("KnapFormer::Transformer::backward");
  if (saved.plan_ != routing.plan().hash() || saved.inputs_.size() != blocks_.size() + 1) {
    routing.group().fail(
        "transformer: backward was given what no forward pass of this routing has saved");
  }
  model::require_rows(routing, "transformer: dy", dy, routing.routed_rows(), config_.d_model);

  Kokkos::deep_copy(exec, saved.gradient_, dy);
  const BlockContext<T> shared = context(exec, routing, saved, observer);
  for (std::int64_t l = config_.layers - 1; l >= 0; --l) {
    const auto index = static_cast<std::size_t>(l);
    const Kokkos::Profiling::ScopedRegion block(regions_[index]);
    BlockActivations<T>& activations = saved.activations_[config_.checkpoint ? 0 : index];
    if (config_.checkpoint && saved.held_block_ != l) {
      blocks_[index].activate(shared, saved.inputs_[index], saved.scratch_, activations);
    }
    blocks_[index].backward(shared, saved.inputs_[index], activations, saved.scratch_,
                            saved.gradient_);
  }
  saved.plan_.reset();  // used up
  return saved.gradient_;
}

template <class T>
double Transformer<T>::forward_flops(const Routing& routing) const {
  const BlockFlops block = flops_of(config_, routing);
  return static_cast<double>(config_.layers) * (block.attention + block.other + block.down);
}

template <class T>
double Transformer<T>::backward_flops(const Routing& routing) const {
  const BlockFlops block = flops_of(config_, routing);
  const auto layers = static_cast<double>(config_.layers);
  double flops = layers * (2.5 * block.attention + 2 * (block.other + block.down));
  // The last block's activations are still there.
  if (config_.checkpoint && layers > 1) flops += (layers - 1) * (block.attention + block.other);
  return flops;
}

template class Saved<float>;
template class Saved<double>;
template class Saved<bfloat16>;
template class Transformer<float>;
template class Transformer<double>;
template class Transformer<bfloat16>;

}  // namespace knapformer
