// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/split_qkv.hpp>

#include "kernels/check.hpp"
#include "kernels/column_sums.hpp"

namespace knapformer::kernels {

template <class T>
static void require_split(const MatrixIn<T>& qkv, const VectorIn<T>& q_weight,
                          const VectorIn<T>& k_weight, const MatrixIn<Accumulate<T>>& rope,
                          const MatrixIn<Accumulate<T>>& inverse_rms, const HeadRowsIn<T>& q,
                          const HeadRowsIn<T>& k, const HeadRowsIn<T>& v, const HeadOrder& order) {
  const auto tokens = static_cast<std::int64_t>(q.extent(0));
  const auto heads = static_cast<std::int64_t>(q.extent(1));
  const auto kv_heads = static_cast<std::int64_t>(k.extent(1));
  const auto d_head = static_cast<std::int64_t>(q.extent(2));
  const bool placed = order.rows.data() != nullptr;
  const auto rows = placed ? static_cast<std::int64_t>(order.rows.extent(0)) : tokens;
  if (d_head % 2 != 0) {
    throw Error("split_qkv: d_head is " + std::to_string(d_head) + ", RoPE needs an even one");
  }
  if (kv_heads > heads) {
    throw Error("split_qkv: " + std::to_string(kv_heads) + " heads of k for " +
                std::to_string(heads) + " of q; give at most as many");
  }
  require_extents("split_qkv: qkv", qkv, {rows, (heads + 2 * kv_heads) * d_head});
  require_extents("split_qkv: q_weight", q_weight, {d_head});
  require_extents("split_qkv: k_weight", k_weight, {d_head});
  require_extents("split_qkv: rope", rope, {tokens, d_head});
  require_extents("split_qkv: inverse_rms", inverse_rms, {rows, heads + kv_heads});
  require_extents("split_qkv: k", k, {tokens, kv_heads, d_head});
  require_extents("split_qkv: v", v, {tokens, kv_heads, d_head});
}

/// The elements of pair i of a head.
template <RopePairs kPairs>
KOKKOS_FORCEINLINE_FUNCTION std::int64_t first_of(std::int64_t i) {
  return kPairs == RopePairs::kHalves ? i : 2 * i;
}
template <RopePairs kPairs>
KOKKOS_FORCEINLINE_FUNCTION std::int64_t second_of(std::int64_t i, std::int64_t half) {
  return kPairs == RopePairs::kHalves ? i + half : 2 * i + 1;
}

/// One head of q or k: normalised, weighted and rotated. Returns the normalisation's factor.
template <RopePairs kPairs, class T>
KOKKOS_FORCEINLINE_FUNCTION Accumulate<T> norm_and_rotate(const TeamMember& member,
                                                          std::int64_t d_head, Accumulate<T> eps,
                                                          const T* from, const T* weight,
                                                          const Accumulate<T>* rope, T* to) {
  using A = Accumulate<T>;
  const std::int64_t half = d_head / 2;
  const A squares = lane_sum<A>(member, d_head, [=](std::int64_t i) { return from[i] * from[i]; });
  const A factor = A(1) / Kokkos::sqrt(squares / A(d_head) + eps);
  lane_for(member, half, [=](std::int64_t i) {
    const std::int64_t a = first_of<kPairs>(i), b = second_of<kPairs>(i, half);
    const A first = from[a] * factor * weight[a];
    const A second = from[b] * factor * weight[b];
    const A cosine = rope[i], sine = rope[i + half];
    to[a] = first * cosine - second * sine;
    to[b] = second * cosine + first * sine;
  });
  return factor;
}

/// The gradient of norm_and_rotate. `gradient` is that of its result, and becomes this head's
/// contribution to the weight's.
template <RopePairs kPairs, class T>
KOKKOS_FORCEINLINE_FUNCTION void norm_and_rotate_backward(
    const TeamMember& member, std::int64_t d_head, const T* from, const T* weight,
    const Accumulate<T>* rope, Accumulate<T> factor, T* gradient, T* dfrom) {
  using A = Accumulate<T>;
  const std::int64_t half = d_head / 2;
  // With xn = from * factor: dfrom = factor * (w g - xn mean(w g xn)), g rotated back.
  lane_for(member, half, [=](std::int64_t i) {
    const std::int64_t a = first_of<kPairs>(i), b = second_of<kPairs>(i, half);
    const A cosine = rope[i], sine = rope[i + half];
    const A first = gradient[a] * cosine + gradient[b] * sine;
    const A second = gradient[b] * cosine - gradient[a] * sine;
    dfrom[a] = first * weight[a];
    dfrom[b] = second * weight[b];
    gradient[a] = first * from[a] * factor;
    gradient[b] = second * from[b] * factor;
  });
  const A mean =
      lane_sum<A>(member, d_head, [=](std::int64_t i) { return gradient[i] * weight[i]; }) /
      A(d_head);
  lane_for(member, d_head,
           [=](std::int64_t i) { dfrom[i] = factor * (dfrom[i] - from[i] * factor * mean); });
}

KOKKOS_FORCEINLINE_FUNCTION std::int64_t token_of(const RowIndex& rows, std::int64_t row) {
  return rows.data() == nullptr ? row : rows(row);
}

template <RopePairs kPairs, class T>
void split_rows(const Device& exec, const MatrixIn<T>& qkv, const VectorIn<T>& q_weight,
                const VectorIn<T>& k_weight, const MatrixIn<Accumulate<T>>& rope, Accumulate<T> eps,
                const HeadRows<T>& q, const HeadRows<T>& k, const HeadRows<T>& v,
                const Matrix<Accumulate<T>>& inverse_rms, const RowIndex& rows) {
  const auto heads = static_cast<std::int64_t>(q.extent(1));
  const auto kv_heads = static_cast<std::int64_t>(k.extent(1));
  const auto d_head = static_cast<std::int64_t>(q.extent(2));
  for_each_row(
      "KnapFormer::split_qkv", exec, static_cast<std::int64_t>(qkv.extent(0)) * heads,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t index) {
        const std::int64_t row = index / heads, head = index % heads;
        const std::int64_t token = token_of(rows, row);
        const T* const q_from = &qkv(row, head * d_head);
        const T* const k_from = q_from + heads * d_head;
        const T* const v_from = k_from + kv_heads * d_head;
        const Accumulate<T>* const angles = &rope(token, 0);
        inverse_rms(row, head) = norm_and_rotate<kPairs>(
            member, d_head, eps, q_from, q_weight.data(), angles, &q(token, head, 0));
        if (head >= kv_heads) return;
        inverse_rms(row, heads + head) = norm_and_rotate<kPairs>(
            member, d_head, eps, k_from, k_weight.data(), angles, &k(token, head, 0));
        T* const v_to = &v(token, head, 0);
        lane_for(member, d_head, [=](std::int64_t i) { v_to[i] = v_from[i]; });
      });
}

template <RopePairs kPairs, class T>
void split_rows_backward(const Device& exec, const MatrixIn<T>& qkv, const VectorIn<T>& q_weight,
                         const VectorIn<T>& k_weight, const MatrixIn<Accumulate<T>>& rope,
                         const MatrixIn<Accumulate<T>>& inverse_rms, const HeadRows<T>& dq,
                         const HeadRows<T>& dk, const HeadRowsIn<T>& dv, const Matrix<T>& dqkv,
                         const RowIndex& rows) {
  const auto heads = static_cast<std::int64_t>(dq.extent(1));
  const auto kv_heads = static_cast<std::int64_t>(dk.extent(1));
  const auto d_head = static_cast<std::int64_t>(dq.extent(2));
  for_each_row(
      "KnapFormer::split_qkv_backward", exec, static_cast<std::int64_t>(qkv.extent(0)) * heads,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t index) {
        const std::int64_t row = index / heads, head = index % heads;
        const std::int64_t token = token_of(rows, row);
        const T* const q_from = &qkv(row, head * d_head);
        const T* const k_from = q_from + heads * d_head;
        const Accumulate<T>* const angles = &rope(token, 0);
        T* const dq_to = &dqkv(row, head * d_head);
        T* const dk_to = dq_to + heads * d_head;
        T* const dv_to = dk_to + kv_heads * d_head;
        norm_and_rotate_backward<kPairs>(member, d_head, q_from, q_weight.data(), angles,
                                         inverse_rms(row, head), &dq(token, head, 0), dq_to);
        if (head >= kv_heads) return;
        norm_and_rotate_backward<kPairs>(member, d_head, k_from, k_weight.data(), angles,
                                         inverse_rms(row, heads + head), &dk(token, head, 0),
                                         dk_to);
        const T* const dv_from = &dv(token, head, 0);
        lane_for(member, d_head, [=](std::int64_t i) { dv_to[i] = dv_from[i]; });
      });
}

/// Adds up what split_rows_backward left in `contributions`.
template <class T>
void add_weight_gradient(const Device& exec, std::int64_t row_count, const RowIndex& rows,
                         const HeadRows<T>& contributions, const Vector<Accumulate<T>>& dweight) {
  const auto heads = static_cast<std::int64_t>(contributions.extent(1));
  add_column_sums(
      "KnapFormer::head_norm_weight_gradient", exec, row_count * heads, dweight,
      KOKKOS_LAMBDA(std::int64_t index, std::int64_t c) {
        return contributions(token_of(rows, index / heads), index % heads, c);
      });
}

template <class T>
void split_qkv(const Device& exec, const MatrixIn<T>& qkv, const VectorIn<T>& q_weight,
               const VectorIn<T>& k_weight, const MatrixIn<Accumulate<T>>& rope, double eps,
               const HeadRows<T>& q, const HeadRows<T>& k, const HeadRows<T>& v,
               const Matrix<Accumulate<T>>& inverse_rms, const HeadOrder& order) {
  require_split<T>(qkv, q_weight, k_weight, rope, inverse_rms, q, k, v, order);
  const auto split = order.pairs == RopePairs::kHalves ? split_rows<RopePairs::kHalves, T>
                                                       : split_rows<RopePairs::kNeighbours, T>;
  split(exec, qkv, q_weight, k_weight, rope, Accumulate<T>(eps), q, k, v, inverse_rms, order.rows);
}

template <class T>
void split_qkv_backward(const Device& exec, const MatrixIn<T>& qkv, const VectorIn<T>& q_weight,
                        const VectorIn<T>& k_weight, const MatrixIn<Accumulate<T>>& rope,
                        const MatrixIn<Accumulate<T>>& inverse_rms, const HeadRows<T>& dq,
                        const HeadRows<T>& dk, const HeadRowsIn<T>& dv, const Matrix<T>& dqkv,
                        const Vector<Accumulate<T>>& dq_weight,
                        const Vector<Accumulate<T>>& dk_weight, const HeadOrder& order) {
  require_split<T>(qkv, q_weight, k_weight, rope, inverse_rms, dq, dk, dv, order);
  require_split<T>(dqkv, q_weight, k_weight, rope, inverse_rms, dq, dk, dv, order);
  const auto d_head = static_cast<std::int64_t>(dq.extent(2));
  require_extents("split_qkv_backward: dq_weight", dq_weight, {d_head});
  require_extents("split_qkv_backward: dk_weight", dk_weight, {d_head});
  const auto split = order.pairs == RopePairs::kHalves
                         ? split_rows_backward<RopePairs::kHalves, T>
                         : split_rows_backward<RopePairs::kNeighbours, T>;
  split(exec, qkv, q_weight, k_weight, rope, inverse_rms, dq, dk, dv, dqkv, order.rows);
  const auto rows = static_cast<std::int64_t>(qkv.extent(0));
  add_weight_gradient(exec, rows, order.rows, dq, dq_weight);
  add_weight_gradient(exec, rows, order.rows, dk, dk_weight);
}

#define KNAPFORMER_INSTANTIATE(T)                                                               \
  template void split_qkv<T>(const Device&, const MatrixIn<T>&, const VectorIn<T>&,             \
                             const VectorIn<T>&, const MatrixIn<Accumulate<T>>&, double,        \
                             const HeadRows<T>&, const HeadRows<T>&, const HeadRows<T>&,        \
                             const Matrix<Accumulate<T>>&, const HeadOrder&);                   \
  template void split_qkv_backward<T>(                                                          \
      const Device&, const MatrixIn<T>&, const VectorIn<T>&, const VectorIn<T>&,                \
      const MatrixIn<Accumulate<T>>&, const MatrixIn<Accumulate<T>>&, const HeadRows<T>&,       \
      const HeadRows<T>&, const HeadRowsIn<T>&, const Matrix<T>&, const Vector<Accumulate<T>>&, \
      const Vector<Accumulate<T>>&, const HeadOrder&);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)
KNAPFORMER_INSTANTIATE(bfloat16)

}  // namespace knapformer::kernels
