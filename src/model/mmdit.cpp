// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <iterator>
#include <knapformer/model/mmdit.hpp>
#include <tuple>

#include "model/initialize.hpp"
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

}  // namespace

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
                            MMDiTSaved<T>& saved, const ExchangeObserver& observer) const {
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
  routing.route_into(exec, std::tie(saved.routed_, saved.positions_, saved.modalities_),
                     saved.home_, input.positions, input.modalities);
  routing.route_sequences_into(exec, std::tie(saved.chunk_conditioning_), saved.ends_.conditioning);
  const Matrix<T> y = stack_->forward(exec, routing, saved.routed_, saved.chunk_conditioning_,
                                      saved.modalities_, saved.positions_, saved.stack_, observer);
  routing.reverse_route_into(exec, std::tie(saved.home_), y);
  ends_->predict(exec, saved.order_, saved.home_, saved.ends_, saved.out_);
  return saved.out_;
}

template <class T>
typename MMDiT<T>::Gradients MMDiT<T>::backward(const Device& exec, const Routing& routing,
                                                const Matrix<T>& d_out, MMDiTSaved<T>& saved,
                                                const ExchangeObserver& observer) const {
  const Kokkos::Profiling::ScopedRegion region("KnapFormer::MMDiT::backward");
  if (saved.plan_ != routing.plan().hash()) {
    routing.group().fail(
        "mmdit: backward was given what no forward pass of this routing has saved");
  }
  model::require_rows(routing, "mmdit: d_out", d_out, saved.order_.image_rows, config_.d_patch);
  ends_->predict_backward(exec, saved.order_, d_out, saved.ends_, saved.home_);
  routing.reverse_route_adjoint_into(exec, std::tie(saved.routed_gradient_), saved.home_);
  const auto gradients =
      stack_->backward(exec, routing, saved.routed_gradient_, saved.stack_, observer);
  routing.route_adjoint_into(exec, std::tie(saved.home_), gradients.x);
  routing.route_sequences_adjoint_into(exec, std::tie(saved.ends_.d_conditioning),
                                       gradients.conditioning);
  ends_->embed_backward(exec, saved.order_, saved.home_, saved.input_.patches, saved.input_.text,
                        saved.ends_, saved.d_patches_, saved.d_text_);
  saved.plan_.reset();  // used up
  return {saved.d_patches_, saved.d_text_};
}

template class MMDiTSaved<float>;
template class MMDiTSaved<double>;
template class MMDiTSaved<bfloat16>;
template class MMDiT<float>;
template class MMDiT<double>;
template class MMDiT<bfloat16>;

}  // namespace knapformer
