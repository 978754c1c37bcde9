// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/gather_rows.hpp>
#include <knapformer/kernels/linear.hpp>
#include <knapformer/kernels/modulation.hpp>
#include <knapformer/kernels/silu.hpp>
#include <knapformer/kernels/time_embedding.hpp>
#include <knapformer/model/mmdit_ends.hpp>

#include "model/parameter_views.hpp"
#include "model/stream_views.hpp"

namespace knapformer {
namespace {

template <class T>
MMDiTEndsWeights<T> mmdit_ends_weights(const MMDiTConfig& config, const Vector<T>& flat) {
  model::ParameterViews<T> views("mmdit", mmdit_ends_parameters(config), flat);
  MMDiTEndsWeights<T> w;
  w.image_weight = views.matrix();
  w.image_bias = views.vector();
  w.text_weight = views.matrix();
  w.text_bias = views.vector();
  w.time_in_weight = views.matrix();
  w.time_in_bias = views.vector();
  w.time_out_weight = views.matrix();
  w.time_out_bias = views.vector();
  w.mod_weight = views.matrix();
  w.mod_bias = views.vector();
  w.linear_weight = views.matrix();
  w.linear_bias = views.vector();
  return w;
}

}  // namespace

template <class T>
void MMDiTEndsActivations<T>::resize(const Device& exec, const MMDiTConfig& config,
                                     const StreamOrder& order) {
  const std::int64_t sequences = order.chunks, d = config.d_model;
  arena_.lay_out(exec, [&](auto& cursor) {
    for (Matrix<T>* view : {&sinusoids, &d_sinusoids}) {
      *view = cursor.matrix(sequences, config.d_time);
    }
    for (Matrix<T>* view :
         {&time_hidden, &time_activated, &vec, &conditioning, &d_conditioning, &d_sequences}) {
      *view = cursor.matrix(sequences, d);
    }
    for (Matrix<T>* view : {&modulation, &d_modulation}) *view = cursor.matrix(sequences, 2 * d);
    sorted = cursor.matrix(order.row_count(), d);
    for (Matrix<T>* view : {&image, &normed, &d_normed, &d_image}) {
      *view = cursor.matrix(order.image_rows, d);
    }
    moments = cursor.wide_matrix(order.image_rows, 2);
  });
}

template <class T>
MMDiTEnds<T>::MMDiTEnds(const MMDiTConfig& config, const Vector<T>& parameters,
                        const Vector<Accumulate<T>>& gradients)
    : config_(config),
      parameters_(mmdit_ends_weights<T>(config, parameters)),
      gradients_(mmdit_ends_weights<Accumulate<T>>(config, gradients)) {}

template <class T>
void MMDiTEnds<T>::embed(const Device& exec, const StreamOrder& order,
                         const kernels::MatrixIn<T>& patches, const kernels::MatrixIn<T>& text,
                         const kernels::VectorIn<Accumulate<T>>& times,
                         const MMDiTEndsActivations<T>& saved, const Matrix<T>& x) const {
  const auto& p = parameters_;
  kernels::time_embedding(exec, times, config_.time_factor, config_.time_period, saved.sinusoids);
  kernels::linear(exec, saved.sinusoids, p.time_in_weight, p.time_in_bias, saved.time_hidden);
  kernels::silu(exec, saved.time_hidden, saved.time_activated);
  kernels::linear(exec, saved.time_activated, p.time_out_weight, p.time_out_bias, saved.vec);
  kernels::silu(exec, saved.vec, saved.conditioning);

  const model::Stream texts = model::stream(order, 0), images = model::stream(order, 1);
  kernels::linear(exec, text, p.text_weight, p.text_bias, texts.of(saved.sorted));
  kernels::linear(exec, patches, p.image_weight, p.image_bias, images.of(saved.sorted));
  kernels::scatter_rows(exec, order.rows, saved.sorted, x);
}

template <class T>
void MMDiTEnds<T>::embed_backward(const Device& exec, const StreamOrder& order,
                                  const kernels::MatrixIn<T>& dx,
                                  const kernels::MatrixIn<T>& patches,
                                  const kernels::MatrixIn<T>& text,
                                  const MMDiTEndsActivations<T>& saved, const Matrix<T>& d_patches,
                                  const Matrix<T>& d_text) const {
  const auto& p = parameters_;
  const auto& g = gradients_;
  const model::Stream texts = model::stream(order, 0), images = model::stream(order, 1);
  kernels::gather_rows(exec, order.rows, dx, saved.sorted);
  kernels::linear_backward(exec, text, p.text_weight, texts.of(saved.sorted), d_text, g.text_weight,
                           g.text_bias);
  kernels::linear_backward(exec, patches, p.image_weight, images.of(saved.sorted), d_patches,
                           g.image_weight, g.image_bias);

  kernels::linear_backward(exec, saved.conditioning, p.mod_weight, saved.d_modulation,
                           saved.d_conditioning, g.mod_weight, g.mod_bias, 1);
  kernels::silu_backward(exec, saved.vec, saved.d_conditioning, saved.d_conditioning);
  kernels::linear_backward(exec, saved.time_activated, p.time_out_weight, saved.d_conditioning,
                           saved.d_sequences, g.time_out_weight, g.time_out_bias);
  kernels::silu_backward(exec, saved.time_hidden, saved.d_sequences, saved.d_sequences);
  kernels::linear_backward(exec, saved.sinusoids, p.time_in_weight, saved.d_sequences,
                           saved.d_sinusoids, g.time_in_weight, g.time_in_bias);
}

template <class T>
void MMDiTEnds<T>::predict(const Device& exec, const StreamOrder& order,
                           const kernels::MatrixIn<T>& y, const MMDiTEndsActivations<T>& saved,
                           const Matrix<T>& out) const {
  const auto& p = parameters_;
  const std::int64_t d = config_.d_model;
  kernels::linear(exec, saved.conditioning, p.mod_weight, p.mod_bias, saved.modulation);
  kernels::gather_rows(exec, model::stream(order, 1).places, y, saved.image);
  kernels::modulated_norm(
      exec, order.image, saved.image, model::part(saved.modulation, model::kShift, d),
      model::part(saved.modulation, model::kScale, d), config_.eps, saved.normed, saved.moments);
  kernels::linear(exec, saved.normed, p.linear_weight, p.linear_bias, out);
}

template <class T>
void MMDiTEnds<T>::predict_backward(const Device& exec, const StreamOrder& order,
                                    const kernels::MatrixIn<T>& d_out,
                                    const MMDiTEndsActivations<T>& saved,
                                    const Matrix<T>& dy) const {
  const auto& p = parameters_;
  const auto& g = gradients_;
  const std::int64_t d = config_.d_model;
  kernels::linear_backward(exec, saved.normed, p.linear_weight, d_out, saved.d_normed,
                           g.linear_weight, g.linear_bias);
  Kokkos::deep_copy(exec, saved.d_image, T(0));
  kernels::modulated_norm_backward(exec, order.image, saved.image,
                                   model::part(saved.modulation, model::kScale, d), saved.moments,
                                   saved.d_normed, saved.d_image,
                                   model::part(saved.d_modulation, model::kShift, d),
                                   model::part(saved.d_modulation, model::kScale, d));
  Kokkos::deep_copy(exec, dy, T(0));
  kernels::scatter_rows(exec, model::stream(order, 1).places, saved.d_image, dy);
}

template struct MMDiTEndsActivations<float>;
template struct MMDiTEndsActivations<double>;
template struct MMDiTEndsActivations<bfloat16>;
template class MMDiTEnds<float>;
template class MMDiTEnds<double>;
template class MMDiTEnds<bfloat16>;

}  // namespace knapformer
