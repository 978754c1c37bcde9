// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <knapformer/train/token_buffers.hpp>
#include <numeric>
#include <string>

namespace knapformer {
namespace {

/// A view of the first `rows` rows of `storage`, which is made anew when it has fewer.
template <class View>
View first_rows(const Device& exec, const std::string& label, View& storage, std::int64_t rows) {
  if (rows > static_cast<std::int64_t>(storage.extent(0))) {
    storage = {};  // before the new one is there
    storage = View(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, label), rows);
  }
  return View(storage.data(), rows);
}

}  // namespace

Vector<double> LossScales::reset(const Device& exec, std::span<const std::int64_t> lengths,
                                 std::int64_t columns, LossMean mean) {
  const std::int64_t rows = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const Vector<double> scales = first_rows(exec, "KnapFormer::loss_scales", device_, rows);
  const auto on_host = first_rows(exec, "KnapFormer::loss_scales", host_, rows);
  double* next = on_host.data();
  for (const std::int64_t length : lengths) {
    if (length == 0) continue;
    next = std::fill_n(next, length, token_weight(mean, length) / static_cast<double>(columns));
  }
  Kokkos::deep_copy(exec, scales, on_host);
  return scales;
}

template <class T>
void TokenBuffers<T>::reset(const Device& exec, const Routing& routing,
                            std::span<const std::int64_t> lengths, std::int64_t d_model,
                            LossMean mean) {
  const std::int64_t home = routing.home_rows(), routed = routing.routed_rows();
  rows_.lay_out(exec, [&](auto& cursor) {
    for (Matrix<T>* view : {&x, &d_y}) *view = cursor.matrix(routed, d_model);
    for (Matrix<T>* view : {&output, &d_output}) *view = cursor.matrix(home, d_model);
  });
  positions = first_rows(exec, "KnapFormer::positions", all_positions_, routed);
  scales = all_scales_.reset(exec, lengths, d_model, mean);
}

template <class T>
std::int64_t TokenBuffers<T>::bytes() const {
  return rows_.bytes() + all_scales_.bytes() +
         static_cast<std::int64_t>(all_positions_.span() * sizeof(std::int32_t));
}

template struct TokenBuffers<float>;
template struct TokenBuffers<double>;
template struct TokenBuffers<bfloat16>;

}  // namespace knapformer
