// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <cmath>
#include <knapformer/kernels/attention.hpp>

#include "kernels/attention_tile.hpp"
#include "kernels/check.hpp"

namespace knapformer::kernels {

using AttentionPolicy =
    Kokkos::TeamPolicy<Device, Kokkos::IndexType<std::int64_t>, Kokkos::Schedule<Kokkos::Dynamic>>;
static_assert(std::is_same_v<AttentionPolicy::member_type, TeamMember>);

// An enumerator, since device code cannot refer to a constant of the host.
enum : int { kScratchLevel = kOnHost ? 1 : 0 };

template <class Element>
KOKKOS_INLINE_FUNCTION Element* scratch(const TeamMember& member, std::int64_t size) {
  return static_cast<Element*>(member.team_scratch(kScratchLevel)
                                   .get_shmem_aligned(sizeof(Element) * size, alignof(Element)));
}

/// A policy with one league member an item, and room for `tiles` score tiles in each.
template <class T>
AttentionPolicy policy_for(const Device& exec, std::int64_t items, int tiles) {
  const std::size_t bytes =
      sizeof(T) * kTile * kTile * tiles + sizeof(SoftmaxState<T>) * kTile + 2 * alignof(T);
  return AttentionPolicy(exec, league_size(items), kAttentionThreads, 1)
      .set_scratch_size(kScratchLevel, Kokkos::PerTeam(bytes));
}

template <class T>
void require_packed(const AttentionWork& work, std::int64_t d, const char* name,
                    const MatrixIn<T>& view) {
  require_extents(name, view, {work.head_rows, d});
  if (view.size() > 0 && !view.span_is_contiguous()) {
    throw Error(std::string(name) + " has gaps between its rows; attention wants packed rows");
  }
}

/// A tile of queries against all keys that they see.
template <class T>
KOKKOS_INLINE_FUNCTION void attend(const TeamMember& member, const AttentionItem& item, bool causal,
                                   std::int64_t d, T scale, const T* q, const T* k, const T* v,
                                   T* out, T* log_sum_exp) {
  const std::int64_t distance = item.row_step * d;
  const int rows = static_cast<int>(item.end - item.begin);
  const std::int64_t first_row = item.first_row + item.begin * item.row_step;
  const T* const q_tile = q + first_row * d;
  T* const out_tile = out + first_row * d;
  k += item.first_row * d;
  v += item.first_row * d;
  T* const scores = scratch<T>(member, kTile * kTile);
  auto* const states = scratch<SoftmaxState<T>>(member, kTile);
  Kokkos::parallel_for(Kokkos::TeamThreadRange(member, rows), [&](int row) { states[row] = {}; });
  member.team_barrier();

  const std::int64_t last_key = causal ? item.end : item.length;
  for (std::int64_t key = 0; key < last_key; key += kTile) {
    const int columns = static_cast<int>(last_key - key < kTile ? last_key - key : kTile);
    const ScoreTile tile{rows, columns, kTile, causal, item.begin - key + 1};
    tile_multiply(member, Transpose::kNo, Transpose::kYes, rows, columns, d, scale, q_tile,
                  distance, k + key * distance, distance, T(0), scores, kTile);
    softmax_tile(member, tile, scores, states, out_tile, distance, key > 0 ? d : 0);
    tile_multiply(member, Transpose::kNo, Transpose::kNo, rows, d, columns, T(1), scores, kTile,
                  v + key * distance, distance, key > 0 ? T(1) : T(0), out_tile, distance);
  }
  Kokkos::parallel_for(Kokkos::TeamThreadRange(member, rows), [&](int row) {
    T* const sums = out_tile + row * distance;
    const T factor = T(1) / states[row].sum;
    for (std::int64_t c = 0; c < d; ++c) sums[c] *= factor;
    log_sum_exp[first_row + row * item.row_step] =
        states[row].maximum + Kokkos::log(states[row].sum);
  });
}

/// A segment of keys against all queries that see them. dq gathers this segment's part alone.
template <class T>
KOKKOS_INLINE_FUNCTION void attend_backward(const TeamMember& member, const AttentionItem& item,
                                            bool causal, std::int64_t d, T scale, const T* q,
                                            const T* k, const T* v, const T* log_sum_exp,
                                            const T* dout, const T* delta, T* dq, T* dk, T* dv) {
  constexpr auto kNo = Transpose::kNo, kYes = Transpose::kYes;
  const std::int64_t step = item.row_step, distance = step * d;
  T* const scores = scratch<T>(member, kTile * kTile);
  T* const products = scratch<T>(member, kTile * kTile);
  for (std::int64_t key = item.begin; key < item.end; key += kTile) {
    const int columns = static_cast<int>(item.end - key < kTile ? item.end - key : kTile);
    const std::int64_t key_at = (item.first_row + key * step) * d;
    const std::int64_t first_query = causal ? key : 0;
    for (std::int64_t query = first_query; query < item.length; query += kTile) {
      const int rows = static_cast<int>(item.length - query < kTile ? item.length - query : kTile);
      const std::int64_t query_row = item.first_row + query * step, query_at = query_row * d;
      const ScoreTile tile{rows, columns, kTile, causal, query - key + 1};
      tile_multiply(member, kNo, kYes, rows, columns, d, scale, q + query_at, distance, k + key_at,
                    distance, T(0), scores, kTile);
      tile_multiply(member, kNo, kYes, rows, columns, d, T(1), dout + query_at, distance,
                    v + key_at, distance, T(0), products, kTile);
      softmax_gradient_tile(member, tile, scores, products, log_sum_exp + query_row,
                            delta + query_row, step);
      const T beta = query == first_query ? T(0) : T(1);
      tile_multiply(member, kYes, kNo, columns, d, rows, T(1), scores, kTile, dout + query_at,
                    distance, beta, dv + key_at, distance);
      tile_multiply(member, kYes, kNo, columns, d, rows, scale, products, kTile, q + query_at,
                    distance, beta, dk + key_at, distance);
      tile_multiply(member, kNo, kNo, rows, d, columns, scale, products, kTile, k + key_at,
                    distance, T(1), dq + query_at, distance);
    }
  }
}

template <class T>
void attention(const Device& exec, const AttentionWork& work, const MatrixIn<T>& q,
               const MatrixIn<T>& k, const MatrixIn<T>& v, const Matrix<T>& out,
               const Vector<T>& log_sum_exp) {
  const auto d = static_cast<std::int64_t>(q.extent(1));
  require_packed<T>(work, d, "attention: q", q);
  require_packed<T>(work, d, "attention: k", k);
  require_packed<T>(work, d, "attention: v", v);
  require_packed<T>(work, d, "attention: out", out);
  require_extents("attention: log_sum_exp", log_sum_exp, {work.head_rows});
  if (work.queries.extent(0) == 0) return;
  const auto items = work.queries;
  const bool causal = work.causal;
  const T scale = T(1 / std::sqrt(static_cast<double>(d)));
  Kokkos::parallel_for(
      "KnapFormer::attention", policy_for<T>(exec, static_cast<std::int64_t>(items.extent(0)), 1),
      KOKKOS_LAMBDA(const TeamMember& member) {
        attend(member, items(member.league_rank()), causal, d, scale, q.data(), k.data(), v.data(),
               out.data(), log_sum_exp.data());
      });
}

template <class T>
void attention_backward(const Device& exec, const AttentionWork& work, const MatrixIn<T>& q,
                        const MatrixIn<T>& k, const MatrixIn<T>& v, const MatrixIn<T>& out,
                        const VectorIn<T>& log_sum_exp, const MatrixIn<T>& dout,
                        const Vector<T>& workspace, const Matrix<T>& dq, const Matrix<T>& dk,
                        const Matrix<T>& dv) {
  const auto d = static_cast<std::int64_t>(q.extent(1));
  require_packed<T>(work, d, "attention_backward: q", q);
  require_packed<T>(work, d, "attention_backward: k", k);
  require_packed<T>(work, d, "attention_backward: v", v);
  require_packed<T>(work, d, "attention_backward: out", out);
  require_packed<T>(work, d, "attention_backward: dout", dout);
  require_packed<T>(work, d, "attention_backward: dq", dq);
  require_packed<T>(work, d, "attention_backward: dk", dk);
  require_packed<T>(work, d, "attention_backward: dv", dv);
  require_extents("attention_backward: log_sum_exp", log_sum_exp, {work.head_rows});
  require_extents("attention_backward: workspace", workspace, {attention_workspace(work, d)});
  if (work.keys.extent(0) == 0) return;
  const auto items = work.keys;
  const bool causal = work.causal;
  const T scale = T(1 / std::sqrt(static_cast<double>(d)));
  const std::int64_t head_rows = work.head_rows, segments = work.segments;
  T* const delta = workspace.data();
  T* const partial = delta + head_rows;  // dq of segments 1, 2, ...: [segments - 1, head_rows, d]

  for_each_row(
      "KnapFormer::attention_delta", exec, head_rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        const T* const a = &out(row, 0);
        const T* const b = &dout(row, 0);
        delta[row] = lane_sum<T>(member, d, [=](std::int64_t c) { return a[c] * b[c]; });
        for (std::int64_t segment = 0; segment < segments; ++segment) {
          T* const to =
              segment == 0 ? &dq(row, 0) : partial + ((segment - 1) * head_rows + row) * d;
          lane_for(member, d, [=](std::int64_t c) { to[c] = 0; });
        }
      });
  Kokkos::parallel_for(
      "KnapFormer::attention_backward",
      policy_for<T>(exec, static_cast<std::int64_t>(items.extent(0)), 2),
      KOKKOS_LAMBDA(const TeamMember& member) {
        const AttentionItem item = items(member.league_rank());
        T* const own = item.segment == 0 ? dq.data() : partial + (item.segment - 1) * head_rows * d;
        attend_backward(member, item, causal, d, scale, q.data(), k.data(), v.data(),
                        log_sum_exp.data(), dout.data(), delta, own, dk.data(), dv.data());
      });
  if (segments == 1) return;
  for_each_row(
      "KnapFormer::attention_dq", exec, head_rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        T* const to = &dq(row, 0);
        for (std::int64_t segment = 1; segment < segments; ++segment) {
          const T* const from = partial + ((segment - 1) * head_rows + row) * d;
          lane_for(member, d, [=](std::int64_t c) { to[c] += from[c]; });
        }
      });
}

#define KNAPFORMER_INSTANTIATE(T)                                                                 \
  template void attention<T>(const Device&, const AttentionWork&, const MatrixIn<T>&,             \
                             const MatrixIn<T>&, const MatrixIn<T>&, const Matrix<T>&,            \
                             const Vector<T>&);                                                   \
  template void attention_backward<T>(const Device&, const AttentionWork&, const MatrixIn<T>&,    \
                                      const MatrixIn<T>&, const MatrixIn<T>&, const MatrixIn<T>&, \
                                      const VectorIn<T>&, const MatrixIn<T>&, const Vector<T>&,   \
                                      const Matrix<T>&, const Matrix<T>&, const Matrix<T>&);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)

}  // namespace knapformer::kernels
