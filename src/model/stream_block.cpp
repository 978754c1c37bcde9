// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <iterator>
#include <knapformer/model/stream_block.hpp>

namespace knapformer {

template <class T>
void StreamScratch<T>::resize(const Device& exec, const MMDiTConfig& config, const Routing& routing,
                              const RoutedAttention& attention) {
  const std::int64_t rows = routing.routed_rows(), d = config.d_model;
  arena_.lay_out(exec, [&](auto& cursor) {
    heads.take(cursor, routing, attention, config.d_head());
    mixed = cursor.matrix(rows, d);
    d_rows = cursor.matrix(rows, d);
    d_hidden = cursor.matrix(rows, config.d_mlp);
    const Vector<T> wide = cursor.vector(rows * std::max(config.d_mlp, 3 * d));
    d_activated = Matrix<T>(wide.data(), rows, config.d_mlp);
    d_sorted = Matrix<T>(wide.data(), rows, d);
    d_qkv = Matrix<T>(wide.data(), rows, 3 * d);
    for (Matrix<T>& one : d_modulation) one = cursor.matrix(std::ssize(routing.chunks()), 6 * d);
  });
}

template struct StreamScratch<float>;
template struct StreamScratch<double>;
template struct StreamScratch<bfloat16>;

}  // namespace knapformer
