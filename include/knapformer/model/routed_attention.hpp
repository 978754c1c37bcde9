// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <functional>
#include <knapformer/kernels/attention.hpp>
#include <knapformer/kernels/types.hpp>
#include <knapformer/model/arena.hpp>
#include <knapformer/route/routing.hpp>

namespace knapformer {

/// Told before (true) and after (false) this rank starts or waits for an exchange around attention;
/// the device is idle both times.
using ExchangeObserver = std::function<void(bool begins)>;

/// The attention of a routing in two parts: sequences that this rank has for itself, whose heads
/// are there while others still travel, and the rest.
struct RoutedAttention {
  kernels::AttentionWork unsplit;  ///< in the first unsplit.head_rows rows of head buffers
  kernels::AttentionWork split;    ///< in the others

  std::int64_t bytes() const;  ///< of device memory held
};
/// The heads of the plan are those of keys; `queries_per_key` query heads share each of them. Takes
/// the memory of `old`, see make_attention_work.
RoutedAttention make_routed_attention(const Device& exec, const Routing& routing, bool causal,
                                      std::int64_t queries_per_key = 1, RoutedAttention old = {});

/// What all blocks share for one packed batch.
template <class T>
struct BlockContext {
  const Device& exec;                     ///< where all of it is enqueued
  const Routing& routing;                 ///< of the batch
  const RoutedAttention& attention;       ///< of that routing
  kernels::MatrixIn<Accumulate<T>> rope;  ///< [routed_rows x d_head], see kernels::rope_table
  const ExchangeObserver& observer;       ///< may be empty
};

/// What the backward pass of attention needs: head buffers.
template <class T>
struct HeadActivations {
  /// Takes what is below from an arena, for this rank of `routing`.
  void take(typename Arena<T>::Cursor& cursor, const Routing& routing, std::int64_t d_head,
            std::int64_t queries_per_key = 1);

  Matrix<T> q;                        ///< [head_rows x queries_per_key * d_head]
  Matrix<T> k;                        ///< [head_rows x d_head]
  Matrix<T> v;                        ///< as k
  Matrix<T> out;                      ///< as q
  Vector<Accumulate<T>> log_sum_exp;  ///< [head_rows * queries_per_key]
};

/// What one attention at a time works in.
template <class T>
struct HeadScratch {
  /// Takes what is below from an arena, for this rank of `routing`.
  void take(typename Arena<T>::Cursor& cursor, const Routing& routing,
            const RoutedAttention& attention, std::int64_t d_head);

  /// @{
  /// [routed_rows x heads x d_head], of k and v kv_heads; dq, dk, dv in the backward pass
  HeadRows<T> q, k, v;
  /// @}
  Matrix<T> d_out;                  ///< [head_rows x queries_per_key * d_head]
  Matrix<T> dq;                     ///< as d_out
  Matrix<T> dk;                     ///< [head_rows x d_head]
  Matrix<T> dv;                     ///< as dk
  Vector<Accumulate<T>> workspace;  ///< of kernels::attention_backward
};

/// Ulysses attention: scratch.q, k, v of this rank's tokens go to the ranks that have their heads,
/// meet the other tokens of their sequence there, and come back as `mixed` [routed_rows x heads *
/// d_head], packed. Sequences that are not split need not wait for the others. Collective.
template <class T>
void attend(const BlockContext<T>& context, const HeadScratch<T>& scratch,
            const HeadActivations<T>& saved, const Matrix<T>& mixed);

/// From the gradient of `mixed` to those of q, k and v in `scratch`. Collective.
template <class T>
void attend_backward(const BlockContext<T>& context, const HeadActivations<T>& saved,
                     const HeadScratch<T>& scratch, const Matrix<T>& d_mixed);

}  // namespace knapformer
