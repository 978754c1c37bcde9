// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/kernels/types.hpp>
#include <knapformer/route/attention_problem.hpp>
#include <span>

namespace knapformer::kernels {

/// One head of one problem, and the tokens [begin, end) whose queries (forward) or keys (backward)
/// it is about. Its token t is head row first_row + t * row_step. An item of keys is about all
/// queries that share them.
struct AttentionItem {
  std::int64_t first_row = 0;   ///< head row of token 0
  std::int64_t row_step = 0;    ///< head rows from a token to the next
  std::int64_t length = 0;      ///< tokens of the problem
  std::int64_t begin = 0;       ///< first token
  std::int64_t end = 0;         ///< behind the last one
  std::int64_t segment = 0;     ///< which part of the keys, for the backward pass
  std::int64_t query_head = 0;  ///< which of those that share the head's keys, forward
};

/// What attention over a list of problems has to do, cut into items that run side by side. Made
/// once for a routing and used by every block, forward and backward.
struct AttentionWork {
  Kokkos::View<AttentionItem*, Device> queries;  ///< a tile of queries each
  Kokkos::View<AttentionItem*, Device> keys;     ///< a segment of keys each
  Kokkos::View<AttentionItem*, Device> memory;   ///< of both
  std::int64_t head_rows = 0;                    ///< of all problems
  std::int64_t segments = 1;  ///< of keys in a problem, at most; their dq are summed in this order
  std::int64_t queries_per_key = 1;  ///< query heads that share a key and value head
  bool causal = false;               ///< tokens see earlier ones only
};

/// The heads of problems are those of keys; `queries_per_key` query heads share each of them.
/// `workers` is how many items run at a time; 0 stands for what `exec` runs. Keys are only cut into
/// segments when there are fewer heads than would keep the workers busy. Takes the memory of `old`,
/// with which `exec` alone may still be at work, where that is enough. Makes its lists on the host.
AttentionWork make_attention_work(const Device& exec, std::span<const AttentionProblem> problems,
                                  bool causal, std::int64_t queries_per_key = 1,
                                  std::int64_t workers = 0, AttentionWork old = {});

/// Into how many segments that cuts keys, at most.
std::int64_t attention_segments(const Device& exec, std::span<const AttentionProblem> problems,
                                std::int64_t workers = 0);

/// Softmax attention, softmax(q k^T / sqrt(d_head)) v, for every problem and head; causal: token t
/// sees tokens up to t. Tiled, with a running maximum (arXiv 2205.14135). k, v [head_rows x
/// d_head]; q, out [head_rows x queries_per_key * d_head], the query heads of a key head beside
/// each other; log_sum_exp [head_rows * queries_per_key] is kept for the backward pass.
///
/// On the host the tiles are multiplied by the BLAS, called from inside a parallel region: it must
/// then run on the calling thread, as OpenBLAS's OpenMP build does.
template <class T>
void attention(const Device& exec, const AttentionWork& work, const MatrixIn<T>& q,
               const MatrixIn<T>& k, const MatrixIn<T>& v, const Matrix<T>& out,
               const Vector<Accumulate<T>>& log_sum_exp);

/// Elements of the workspace of attention_backward.
template <class T>
std::int64_t attention_workspace(const AttentionWork& work, std::int64_t d_head);

/// Writes dq, dk, dv, shaped like q, k, v; dk and dv are sums over the queries that share a key, in
/// the order of their heads. Probabilities are recomputed from log_sum_exp.
template <class T>
void attention_backward(const Device& exec, const AttentionWork& work, const MatrixIn<T>& q,
                        const MatrixIn<T>& k, const MatrixIn<T>& v, const MatrixIn<T>& out,
                        const VectorIn<Accumulate<T>>& log_sum_exp, const MatrixIn<T>& dout,
                        const Vector<Accumulate<T>>& workspace, const Matrix<T>& dq,
                        const Matrix<T>& dk, const Matrix<T>& dv);

}  // namespace knapformer::kernels
