// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <knapformer/kernels/split_qkv.hpp>

#include "kernels/check.hpp"
#include "kernels/column_sums.hpp"

namespace knapformer::kernels {

template <class T>
static void require_split(const MatrixIn<T>& qkv, const VectorIn<T>& q_weight,
                          const VectorIn<T>& k_weight, const MatrixIn<T>& rope,
                          const MatrixIn<T>& inverse_rms, const HeadRowsIn<T>& q,
                          const HeadRowsIn<T>& k, const HeadRowsIn<T>& v) {
  const auto rows = static_cast<std::int64_t>(q.extent(0));
  const auto heads = static_cast<std::int64_t>(q.extent(1));
  const auto d_head = static_cast<std::int64_t>(q.extent(2));
  if (d_head % 2 != 0) {
    throw Error("split_qkv: d_head is " + std::to_string(d_head) + ", RoPE needs an even one");
  }
  require_extents("split_qkv: qkv", qkv, {rows, 3 * heads * d_head});
  require_extents("split_qkv: q_weight", q_weight, {d_head});
  require_extents("split_qkv: k_weight", k_weight, {d_head});
  require_extents("split_qkv: rope", rope, {rows, d_head});
  require_extents("split_qkv: inverse_rms", inverse_rms, {rows, 2 * heads});
  require_extents("split_qkv: k", k, {rows, heads, d_head});
  require_extents("split_qkv: v", v, {rows, heads, d_head});
}

/// One head of q or k: normalised, weighted and rotated. Returns the normalisation's factor.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T norm_and_rotate(const TeamMember& member, std::int64_t d_head, T eps,
                                              const T* from, const T* weight, const T* rope,
                                              T* to) {
  const std::int64_t half = d_head / 2;
  const T squares = lane_sum<T>(member, d_head, [=](std::int64_t i) { return from[i] * from[i]; });
  const T factor = T(1) / Kokkos::sqrt(squares / T(d_head) + eps);
  lane_for(member, half, [=](std::int64_t i) {
    const T first = from[i] * factor * weight[i];
    const T second = from[i + half] * factor * weight[i + half];
    const T cosine = rope[i], sine = rope[i + half];
    to[i] = first * cosine - second * sine;
    to[i + half] = second * cosine + first * sine;
  });
  return factor;
}

/// The gradient of norm_and_rotate. `gradient` is that of its result, and becomes this head's
/// contribution to the weight's.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void norm_and_rotate_backward(const TeamMember& member,
                                                          std::int64_t d_head, const T* from,
                                                          const T* weight, const T* rope, T factor,
                                                          T* gradient, T* dfrom) {
  const std::int64_t half = d_head / 2;
  // With xn = from * factor: dfrom = factor * (w g - xn mean(w g xn)), g rotated back.
  lane_for(member, half, [=](std::int64_t i) {
    const T cosine = rope[i], sine = rope[i + half];
    const T first = gradient[i] * cosine + gradient[i + half] * sine;
    const T second = gradient[i + half] * cosine - gradient[i] * sine;
    dfrom[i] = first * weight[i];
    dfrom[i + half] = second * weight[i + half];
    gradient[i] = first * from[i] * factor;
    gradient[i + half] = second * from[i + half] * factor;
  });
  const T mean =
      lane_sum<T>(member, d_head, [=](std::int64_t i) { return gradient[i] * weight[i]; }) /
      T(d_head);
  lane_for(member, d_head,
           [=](std::int64_t i) { dfrom[i] = factor * (dfrom[i] - from[i] * factor * mean); });
}

template <class T>
void split_qkv(const Device& exec, const MatrixIn<T>& qkv, const VectorIn<T>& q_weight,
               const VectorIn<T>& k_weight, const MatrixIn<T>& rope, double eps,
               const HeadRows<T>& q, const HeadRows<T>& k, const HeadRows<T>& v,
               const Matrix<T>& inverse_rms) {
  require_split<T>(qkv, q_weight, k_weight, rope, inverse_rms, q, k, v);
  const auto heads = static_cast<std::int64_t>(q.extent(1));
  const auto d_head = static_cast<std::int64_t>(q.extent(2));
  for_each_row(
      "KnapFormer::split_qkv", exec, static_cast<std::int64_t>(q.extent(0)) * heads,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t index) {
        const std::int64_t row = index / heads, head = index % heads;
        const T* const q_from = &qkv(row, head * d_head);
        const T* const k_from = q_from + heads * d_head;
        const T* const v_from = k_from + heads * d_head;
        const T* const angles = &rope(row, 0);
        inverse_rms(row, head) = norm_and_rotate(member, d_head, T(eps), q_from, q_weight.data(),
                                                 angles, &q(row, head, 0));
        inverse_rms(row, heads + head) = norm_and_rotate(member, d_head, T(eps), k_from,
                                                         k_weight.data(), angles, &k(row, head, 0));
        T* const v_to = &v(row, head, 0);
        lane_for(member, d_head, [=](std::int64_t i) { v_to[i] = v_from[i]; });
      });
}

template <class T>
void split_qkv_backward(const Device& exec, const MatrixIn<T>& qkv, const VectorIn<T>& q_weight,
                        const VectorIn<T>& k_weight, const MatrixIn<T>& rope,
                        const MatrixIn<T>& inverse_rms, const HeadRows<T>& dq,
                        const HeadRows<T>& dk, const HeadRowsIn<T>& dv, const Matrix<T>& dqkv,
                        const Vector<T>& dq_weight, const Vector<T>& dk_weight) {
  require_split<T>(qkv, q_weight, k_weight, rope, inverse_rms, dq, dk, dv);
  require_split<T>(dqkv, dq_weight, dk_weight, rope, inverse_rms, dq, dk, dv);
  const auto heads = static_cast<std::int64_t>(dq.extent(1));
  const auto d_head = static_cast<std::int64_t>(dq.extent(2));
  const std::int64_t head_rows = static_cast<std::int64_t>(dq.extent(0)) * heads;
  for_each_row(
      "KnapFormer::split_qkv_backward", exec, head_rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t index) {
        const std::int64_t row = index / heads, head = index % heads;
        const T* const q_from = &qkv(row, head * d_head);
        const T* const k_from = q_from + heads * d_head;
        const T* const angles = &rope(row, 0);
        T* const dq_to = &dqkv(row, head * d_head);
        T* const dk_to = dq_to + heads * d_head;
        T* const dv_to = dk_to + heads * d_head;
        norm_and_rotate_backward(member, d_head, q_from, q_weight.data(), angles,
                                 inverse_rms(row, head), &dq(row, head, 0), dq_to);
        norm_and_rotate_backward(member, d_head, k_from, k_weight.data(), angles,
                                 inverse_rms(row, heads + head), &dk(row, head, 0), dk_to);
        const T* const dv_from = &dv(row, head, 0);
        lane_for(member, d_head, [=](std::int64_t i) { dv_to[i] = dv_from[i]; });
      });
  add_column_sums(
      "KnapFormer::q_norm_weight_gradient", exec, head_rows, dq_weight,
      KOKKOS_LAMBDA(std::int64_t index, std::int64_t c) { return dq.data()[index * d_head + c]; });
  add_column_sums(
      "KnapFormer::k_norm_weight_gradient", exec, head_rows, dk_weight,
      KOKKOS_LAMBDA(std::int64_t index, std::int64_t c) { return dk.data()[index * d_head + c]; });
}

#define KNAPFORMER_INSTANTIATE(T)                                                                \
  template void split_qkv<T>(const Device&, const MatrixIn<T>&, const VectorIn<T>&,              \
                             const VectorIn<T>&, const MatrixIn<T>&, double, const HeadRows<T>&, \
                             const HeadRows<T>&, const HeadRows<T>&, const Matrix<T>&);          \
  template void split_qkv_backward<T>(                                                           \
      const Device&, const MatrixIn<T>&, const VectorIn<T>&, const VectorIn<T>&,                 \
      const MatrixIn<T>&, const MatrixIn<T>&, const HeadRows<T>&, const HeadRows<T>&,            \
      const HeadRowsIn<T>&, const Matrix<T>&, const Vector<T>&, const Vector<T>&);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)

}  // namespace knapformer::kernels
