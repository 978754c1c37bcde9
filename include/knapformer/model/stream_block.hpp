// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <knapformer/kernels/types.hpp>
#include <knapformer/model/arena.hpp>
#include <knapformer/model/mmdit_config.hpp>
#include <knapformer/model/routed_attention.hpp>
#include <knapformer/model/stream_order.hpp>

namespace knapformer {

/// What the blocks of an MMDiT share for one packed batch.
template <class T>
struct StreamContext {
  BlockContext<T> block;              ///< of the routed rows
  const StreamOrder& order;           ///< of the routed rows
  kernels::MatrixIn<T> conditioning;  ///< [chunks x d_model]: SiLU of the conditioning vectors
  Matrix<T> d_conditioning;           ///< its gradient, which the blocks add to
};

/// Memory that one block at a time works in. Reused by all blocks, from step to step.
template <class T>
struct StreamScratch {
  /// Lays out what is below for this rank of `routing`; what was there before is lost.
  void resize(const Device& exec, const MMDiTConfig& config, const Routing& routing,
              const RoutedAttention& attention);

  HeadScratch<T> heads;  ///< around attention
  Matrix<T> mixed;       ///< [rows x d_model], in routed order
  Matrix<T> d_rows;      ///< [rows x d_model]
  Matrix<T> d_hidden;    ///< [rows x d_mlp]
  // Used one after another, in the same memory.
  Matrix<T> d_activated;                  ///< [rows x d_mlp]
  Matrix<T> d_sorted;                     ///< [rows x d_model], in stream order
  Matrix<T> d_qkv;                        ///< [rows x 3 d_model]
  std::array<Matrix<T>, 2> d_modulation;  ///< [chunks x 6 d_model], of text and image

  std::int64_t bytes() const { return arena_.bytes(); }  ///< of device memory held

 private:
  Arena<T> arena_;
};

}  // namespace knapformer
