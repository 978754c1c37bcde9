// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/kernels/types.hpp>
#include <knapformer/route/routing.hpp>
#include <span>

namespace knapformer {

/// What every token is: 0 for text, 1 for image.
using Modalities = Kokkos::View<std::int32_t*, Device>;

/// Packed rows sorted into two streams: all text rows, then all image rows, each in the order in
/// which they came. Chunks stay together in each stream; one may have no rows there.
struct StreamOrder {
  RowIndex rows;                ///< where row i of the sorted rows comes from
  std::int64_t text_rows = 0;   ///< the first ones
  std::int64_t image_rows = 0;  ///< those behind them
  std::int64_t chunks = 0;      ///< in both streams
  ChunkOffsets all;             ///< of the rows as they came
  ChunkOffsets text;            ///< of the text rows
  ChunkOffsets image;           ///< of the image rows, counted from the first of them
  Kokkos::View<std::int64_t*, Device> memory;  ///< of all these lists

  std::int64_t row_count() const { return text_rows + image_rows; }  ///< of both streams
  /// Of device memory held.
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(memory.span() * sizeof(std::int64_t));
  }
};

/// `offsets` are the first row of every chunk, then the number of rows. Fences `exec`. Throws Error
/// unless there is a modality for every row, 0 or 1. Takes the memory of `old`, with which `exec`
/// alone may still be at work, where that is enough.
StreamOrder make_stream_order(const Device& exec, const Modalities& modalities,
                              std::span<const std::int64_t> offsets, StreamOrder old = {});

/// Of the routed rows, chunk by chunk. All ranks throw when one has to.
StreamOrder make_stream_order(const Device& exec, const Routing& routing,
                              const Modalities& modalities, StreamOrder old = {});

}  // namespace knapformer
