// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/model/stream_order.hpp>

#include "model/range.hpp"

namespace knapformer::model {

/// The rows of one stream among sorted rows, and its chunks.
struct Stream {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  ChunkOffsets offsets;
  RowIndex places;  ///< where its rows come from

  template <class T>
  Matrix<T> of(const Matrix<T>& sorted) const {
    return Kokkos::subview(sorted, range(first_row, rows), Kokkos::ALL);
  }
};

/// 0: text, 1: image.
inline Stream stream(const StreamOrder& order, std::size_t which) {
  const std::int64_t first = which == 0 ? 0 : order.text_rows;
  const std::int64_t rows = which == 0 ? order.text_rows : order.image_rows;
  return {first, rows, which == 0 ? order.text : order.image,
          Kokkos::subview(order.rows, range(first, rows))};
}

/// The parts of a modulation, in this order; the last layer has no gate.
enum ModulationPart : std::int64_t { kShift, kScale, kGate };

/// The columns of one of the parts of width d that lie beside each other.
template <class T>
Matrix<T> part(const Matrix<T>& wide, std::int64_t index, std::int64_t d) {
  return Kokkos::subview(wide, Kokkos::ALL, range(index * d, d));
}

}  // namespace knapformer::model
