// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <iterator>
#include <knapformer/model/mmdit.hpp>
#include <tuple>

#include "model/initialize.hpp"
#include "model/observed.hpp"
#include "model/range.hpp"
#include "model/require_rows.hpp"
#include "model/rounded.hpp"

namespace knapformer {
namespace {

/// The first row of every sequence of this rank, then the number of rows.
std::vector<std::int64_t> home_offsets(const Routing& routing) {
  std::vector<std::int64_t> offsets{0};
  const Plan& plan = routing.plan();
  for (std::int64_t s = 0; s < plan.sequences(); ++s) {
    const auto i = static_cast<std::size_t>(s);
    if (plan.homes()[i] == routing.group().rank()) {
      offsets.push_back(offsets.back() + plan.lengths()[i]);
    }
  }
  return offsets;
}

/// FLOPs of the parts of a model, forward.
struct PartFlops {
  double attention = 0;                             ///< of a block
  double double_products = 0, single_products = 0;  ///< of a block
  double ends = 0;
};

template <class T>
PartFlops flops_of(const MMDiTConfig& config, const Routing& routing, const MMDiTInput<T>& input) {
  const auto product = [](std::int64_t rows, std::int64_t in, std::int64_t out) {
    return 2 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  };
  const std::int64_t d = config.d_model, rows = routing.routed_rows();
  const std::int64_t chunks = std::ssize(routing.chunks()), sequences = routing.home_sequences();
  const auto patches = static_cast<std::int64_t>(input.patches.extent(0));
  const auto text = static_cast<std::int64_t>(input.text.extent(0));
  const double block = product(rows, d, 4 * d + 2 * config.d_mlp);
  PartFlops flops;
  for (const AttentionProblem& problem : routing.attention_problems()) {
    flops.attention += 2 * product(problem.length, problem.length, problem.heads * config.d_head());
  }
  flops.double_products = block + product(chunks, d, 12 * d);
  flops.single_products = block + product(chunks, d, 3 * d);
  flops.ends = 2 * product(patches, config.d_patch, d) + product(text, config.d_text, d) +
               product(sequences, d, config.d_time + 3 * d);
  return flops;
}

}  // namespace

template <class T>
std::int64_t MMDiTSaved<T>::bytes() const {
  return order_.bytes() + ends_.bytes() + stack_.bytes();
}

template <class T>
std::int64_t MMDiTSaved<T>::row_bytes() const {
  return arena_.bytes() + integers_.bytes();
}

template <class T>
MMDiT<T>::MMDiT(const MMDiTConfig& config, std::uint64_t seed) : config_(config) {
  check(config_);
  layout_ = mmdit_parameters(config_);
  const std::int64_t size = total_size(layout_);
  const Device exec;
  using A = Accumulate<T>;
  parameters_ = Vector<A>(Kokkos::view_alloc(exec, "KnapFormer::parameters"), size);
  gradients_ = Vector<A>(Kokkos::view_alloc(exec, "KnapFormer::gradients"), size);
  rounded_ = model::rounded_like<T>(exec, parameters_);
  for (const ParameterInfo& info : layout_) {
    const Vector<A> values = Kokkos::subview(parameters_, model::range(info.offset, info.size()));
    if (info.columns > 1) {
      model::fill_random<A>(exec, seed, static_cast<std::uint64_t>(info.offset), model::kDeviation,
                            values);
    } else if (info.name.ends_with("norm/scale")) {
      Kokkos::deep_copy(exec, values, A(1));
    }
  }
  const std::int64_t ends = total_size(mmdit_ends_parameters(config_));
  const auto first = model::range(0, ends), rest = model::range(ends, size - ends);
  ends_.emplace(config_, Kokkos::subview(rounded_, first), Kokkos::subview(gradients_, first));
  stack_.emplace(config_, Kokkos::subview(rounded_, rest), Kokkos::subview(gradients_, rest));
  exec.fence("KnapFormer::parameters");  // any instance may use them from now on
}

template <class T>
Vector<Accumulate<T>> MMDiT<T>::named(const Vector<Accumulate<T>>& all,
                                      std::string_view name) const {
  for (const ParameterInfo& info : layout_) {
    if (info.name == name) return Kokkos::subview(all, model::range(info.offset, info.size()));
  }
  throw Error(fmt::format("mmdit: there is no parameter \"{}\"", name));
}

template <class T>
Vector<Accumulate<T>> MMDiT<T>::parameter(std::string_view name) const {
  return named(parameters_, name);
}

template <class T>
Vector<Accumulate<T>> MMDiT<T>::gradient(std::string_view name) const {
  return named(gradients_, name);
}

template <class T>
std::int64_t MMDiT<T>::parameter_bytes() const {
  const bool shared = std::is_same_v<T, Accumulate<T>>;
  return static_cast<std::int64_t>(parameters_.span() * sizeof(Accumulate<T>) +
                                   (shared ? 0 : rounded_.span() * sizeof(T)));
}

template <class T>
void MMDiT<T>::lay_out(const Device& exec, const Routing& routing, MMDiTSaved<T>& saved) const {
  const std::int64_t rows = routing.routed_rows(), d = config_.d_model;
  const StreamOrder& order = saved.order_;
  saved.ends_.resize(exec, config_, order);
  saved.arena_.lay_out(exec, [&](auto& cursor) {
    saved.home_ = cursor.matrix(routing.home_rows(), d);
    for (Matrix<T>* view : {&saved.routed_, &saved.routed_gradient_}) {
      *view = cursor.matrix(rows, d);
    }
    saved.chunk_conditioning_ = cursor.matrix(std::ssize(routing.chunks()), d);
    for (Matrix<T>* view : {&saved.d_patches_, &saved.out_}) {
      *view = cursor.matrix(order.image_rows, config_.d_patch);
    }
    saved.d_text_ = cursor.matrix(order.text_rows, config_.d_text);
  });
  saved.integers_.lay_out(exec, [&](auto& cursor) {
    saved.modalities_ = cursor.vector(rows);
    saved.positions_ = Positions(cursor.vector(3 * rows).data(), rows);
  });
}

template <class T>
Matrix<T> MMDiT<T>::forward(const Device& exec, const Routing& routing, const MMDiTInput<T>& input,
                            MMDiTSaved<T>& saved, const ExchangeObserver& on_exchange,
                            const ExchangeObserver& on_route) const {
  const Kokkos::Profiling::ScopedRegion region("KnapFormer::MMDiT::forward");
  model::require_rows(routing, "mmdit: positions", input.positions, routing.home_rows(), 3);
  model::require_rows(routing, "mmdit: times", input.times, routing.home_sequences(), 1);
  saved.order_ = routing.group().guard([&] {
    return make_stream_order(exec, input.modalities, home_offsets(routing),
                             std::move(saved.order_));
  });
  model::require_rows(routing, "mmdit: patches", input.patches, saved.order_.image_rows,
                      config_.d_patch);
  model::require_rows(routing, "mmdit: text", input.text, saved.order_.text_rows, config_.d_text);
  saved.plan_ = routing.plan().hash();
  saved.input_ = input;
  lay_out(exec, routing, saved);

  model::round_parameters(exec, parameters_, rounded_);
  ends_->embed(exec, saved.order_, input.patches, input.text, input.times, saved.ends_,
               saved.home_);
  model::observed(exec, on_route, [&] {
    routing.route_into(exec, std::tie(saved.routed_, saved.positions_, saved.modalities_),
                       saved.home_, input.positions, input.modalities);
    routing.route_sequences_into(exec, std::tie(saved.chunk_conditioning_),
                                 saved.ends_.conditioning);
  });
  const Matrix<T> y =
      stack_->forward(exec, routing, saved.routed_, saved.chunk_conditioning_, saved.modalities_,
                      saved.positions_, saved.stack_, on_exchange);
  model::observed(exec, on_route,
                  [&] { routing.reverse_route_into(exec, std::tie(saved.home_), y); });
  ends_->predict(exec, saved.order_, saved.home_, saved.ends_, saved.out_);
  return saved.out_;
}

template <class T>
typename MMDiT<T>::Gradients MMDiT<T>::backward(const Device& exec, const Routing& routing,
                                                const Matrix<T>& d_out, MMDiTSaved<T>& saved,
                                                const ExchangeObserver& on_exchange,
                                                const ExchangeObserver& on_route) const {
  const Kokkos::Profiling::ScopedRegion region("KnapFormer::MMDiT::backward");
  if (saved.plan_ != routing.plan().hash()) {
    routing.group().fail(
        "mmdit: backward was given what no forward pass of this routing has saved");
  }
  model::require_rows(routing, "mmdit: d_out", d_out, saved.order_.image_rows, config_.d_patch);
  ends_->predict_backward(exec, saved.order_, d_out, saved.ends_, saved.home_);
  model::observed(exec, on_route, [&] {
    routing.reverse_route_adjoint_into(exec, std::tie(saved.routed_gradient_), saved.home_);
  });
  const auto gradients =
      stack_->backward(exec, routing, saved.routed_gradient_, saved.stack_, on_exchange);
  model::observed(exec, on_route, [&] {
    routing.route_adjoint_into(exec, std::tie(saved.home_), gradients.x);
    routing.route_sequences_adjoint_into(exec, std::tie(saved.ends_.d_conditioning),
                                         gradients.conditioning);
  });
  ends_->embed_backward(exec, saved.order_, saved.home_, saved.input_.patches, saved.input_.text,
                        saved.ends_, saved.d_patches_, saved.d_text_);
  saved.plan_.reset();  // used up
  return {saved.d_patches_, saved.d_text_};
}

template <class T>
double MMDiT<T>::forward_flops(const Routing& routing, const MMDiTInput<T>& input) const {
  const PartFlops flops = flops_of(config_, routing, input);
  return flops.ends +
         static_cast<double>(config_.double_blocks) * (flops.double_products + flops.attention) +
         static_cast<double>(config_.single_blocks) * (flops.single_products + flops.attention);
}

template <class T>
double MMDiT<T>::backward_flops(const Routing& routing, const MMDiTInput<T>& input) const {
  const PartFlops flops = flops_of(config_, routing, input);
  const auto of_blocks = [&](std::int64_t blocks, double products) {
    const auto n = static_cast<double>(blocks);
    // The activations of the last block are still there.
    const double recomputed = config_.checkpoint && n > 1 ? n - 1 : 0;
    return n * (2 * products + 2.5 * flops.attention) + recomputed * (products + flops.attention);
  };
  return 2 * flops.ends + of_blocks(config_.double_blocks, flops.double_products) +
         of_blocks(config_.single_blocks, flops.single_products);
}

template class MMDiTSaved<float>;
template class MMDiTSaved<double>;
template class MMDiTSaved<bfloat16>;
template class MMDiT<float>;
template class MMDiT<double>;
template class MMDiT<bfloat16>;

}  // namespace knapformer
