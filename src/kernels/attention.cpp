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

/// Room for the rows of a tile that are converted; none where they are computed in place.
template <class T>
KOKKOS_INLINE_FUNCTION Accumulate<T>* room(const TeamMember& member, std::int64_t d) {
  if constexpr (kInPlace<T>) {
    return nullptr;
  } else {
    return static_cast<Accumulate<T>*>(
        member.team_scratch(1).get_shmem_aligned(sizeof(Accumulate<T>) * kTile * d, 64));
  }
}

/// A policy with one league member an item, room for `tiles` score tiles in each, and for the rows
/// of `rooms` tiles of width d where they are converted.
template <class T>
AttentionPolicy policy_for(const Device& exec, std::int64_t items, int tiles, int rooms,
                           std::int64_t d) {
  using A = Accumulate<T>;
  const std::size_t bytes =
      sizeof(A) * kTile * kTile * tiles + sizeof(SoftmaxState<A>) * kTile + 2 * alignof(A);
  const std::size_t room_bytes = kInPlace<T> ? 0 : rooms * (sizeof(A) * kTile * d + 64);
  AttentionPolicy policy(exec, league_size(items), kAttentionThreads, 1);
  if (kOnHost) return policy.set_scratch_size(1, Kokkos::PerTeam(bytes + room_bytes));
  policy.set_scratch_size(0, Kokkos::PerTeam(bytes));
  return policy.set_scratch_size(1, Kokkos::PerTeam(room_bytes));
}

template <class T>
void require_packed(const AttentionWork& work, std::int64_t columns, const char* name,
                    const MatrixIn<T>& view) {
  require_extents(name, view, {work.head_rows, columns});
  if (view.size() > 0 && !view.span_is_contiguous()) {
    throw Error(std::string(name) + " has gaps between its rows; attention wants packed rows");
  }
}

/// Rows of width d of one head's tokens: of its keys and values, or of one of its queries.
struct HeadPlace {
  std::int64_t first_row;
  std::int64_t step;
};
KOKKOS_INLINE_FUNCTION HeadPlace keys_of(const AttentionItem& item) {
  return {item.first_row, item.row_step};
}
KOKKOS_INLINE_FUNCTION HeadPlace queries_of(const AttentionItem& item, std::int64_t query_head,
                                            std::int64_t queries_per_key) {
  return {item.first_row * queries_per_key + query_head, item.row_step * queries_per_key};
}

/// A tile of queries against all keys that they see.
template <class T>
KOKKOS_INLINE_FUNCTION void attend(const TeamMember& member, const AttentionItem& item, bool causal,
                                   std::int64_t queries_per_key, std::int64_t d,
                                   Accumulate<T> scale, const T* q, const T* k, const T* v, T* out,
                                   Accumulate<T>* log_sum_exp) {
  using A = Accumulate<T>;
  const HeadPlace keys = keys_of(item);
  const HeadPlace queries = queries_of(item, item.query_head, queries_per_key);
  const std::int64_t distance = queries.step * d, key_distance = keys.step * d;
  const int rows = static_cast<int>(item.end - item.begin);
  const std::int64_t first_row = queries.first_row + item.begin * queries.step;
  k += keys.first_row * d;
  v += keys.first_row * d;
  A* const scores = scratch<A>(member, kTile * kTile);
  auto* const states = scratch<SoftmaxState<A>>(member, kTile);
  A* const key_room = room<T>(member, d);  // for values too
  const auto q_tile = load_tile(member, rows, d, q + first_row * d, distance, room<T>(member, d));
  const auto sums = sum_tile(d, out + first_row * d, distance, room<T>(member, d));
  Kokkos::parallel_for(Kokkos::TeamThreadRange(member, rows), [&](int row) { states[row] = {}; });
  member.team_barrier();

  const std::int64_t last_key = causal ? item.end : item.length;
  for (std::int64_t key = 0; key < last_key; key += kTile) {
    const int columns = static_cast<int>(last_key - key < kTile ? last_key - key : kTile);
    const ScoreTile tile{rows, columns, kTile, causal, item.begin - key + 1};
    const auto k_tile =
        load_tile(member, columns, d, k + key * key_distance, key_distance, key_room);
    tile_multiply(member, Transpose::kNo, Transpose::kYes, rows, columns, d, scale, q_tile.data,
                  q_tile.distance, k_tile.data, k_tile.distance, A(0), scores, kTile);
    softmax_tile(member, tile, scores, states, sums.data, sums.distance, key > 0 ? d : 0);
    const auto v_tile =
        load_tile(member, columns, d, v + key * key_distance, key_distance, key_room);
    tile_multiply(member, Transpose::kNo, Transpose::kNo, rows, d, columns, A(1), scores, kTile,
                  v_tile.data, v_tile.distance, key > 0 ? A(1) : A(0), sums.data, sums.distance);
  }
  Kokkos::parallel_for(Kokkos::TeamThreadRange(member, rows), [&](int row) {
    A* const own = sums.data + row * sums.distance;
    const A factor = A(1) / states[row].sum;
    for (std::int64_t c = 0; c < d; ++c) own[c] *= factor;
    log_sum_exp[first_row + row * queries.step] =
        states[row].maximum + Kokkos::log(states[row].sum);
  });
  store_tile(member, rows, d, sums, out + first_row * d, distance);
}

/// A segment of keys against all queries that see them, of all heads that share them. dq gathers
/// this segment's part alone.
template <class T>
KOKKOS_INLINE_FUNCTION void attend_backward(const TeamMember& member, const AttentionItem& item,
                                            bool causal, std::int64_t queries_per_key,
                                            std::int64_t d, Accumulate<T> scale, const T* q,
                                            const T* k, const T* v,
                                            const Accumulate<T>* log_sum_exp, const T* dout,
                                            const Accumulate<T>* delta, Accumulate<T>* dq, T* dk,
                                            T* dv) {
  using A = Accumulate<T>;
  constexpr auto kNo = Transpose::kNo, kYes = Transpose::kYes;
  const HeadPlace place = keys_of(item);
  const std::int64_t key_distance = place.step * d, distance = queries_per_key * key_distance;
  A* const scores = scratch<A>(member, kTile * kTile);
  A* const products = scratch<A>(member, kTile * kTile);
  A* const k_room = room<T>(member, d);
  A* const v_room = room<T>(member, d);
  A* const q_room = room<T>(member, d);
  A* const dout_room = room<T>(member, d);
  A* const dk_room = room<T>(member, d);
  A* const dv_room = room<T>(member, d);
  for (std::int64_t key = item.begin; key < item.end; key += kTile) {
    const int columns = static_cast<int>(item.end - key < kTile ? item.end - key : kTile);
    const std::int64_t key_at = (place.first_row + key * place.step) * d;
    const auto keys = load_tile(member, columns, d, k + key_at, key_distance, k_room);
    const auto values = load_tile(member, columns, d, v + key_at, key_distance, v_room);
    const auto dk_sums = sum_tile(d, dk + key_at, key_distance, dk_room);
    const auto dv_sums = sum_tile(d, dv + key_at, key_distance, dv_room);
    const std::int64_t first_query = causal ? key : 0;
    for (std::int64_t head = 0; head < queries_per_key; ++head) {
      const HeadPlace of = queries_of(item, head, queries_per_key);
      for (std::int64_t query = first_query; query < item.length; query += kTile) {
        const std::int64_t left = item.length - query;
        const int rows = static_cast<int>(left < kTile ? left : kTile);
        const std::int64_t query_row = of.first_row + query * of.step, query_at = query_row * d;
        const ScoreTile tile{rows, columns, kTile, causal, query - key + 1};
        const auto queries = load_tile(member, rows, d, q + query_at, distance, q_room);
        const auto douts = load_tile(member, rows, d, dout + query_at, distance, dout_room);
        tile_multiply(member, kNo, kYes, rows, columns, d, scale, queries.data, queries.distance,
                      keys.data, keys.distance, A(0), scores, kTile);
        tile_multiply(member, kNo, kYes, rows, columns, d, A(1), douts.data, douts.distance,
                      values.data, values.distance, A(0), products, kTile);
        softmax_gradient_tile(member, tile, scores, products, log_sum_exp + query_row,
                              delta + query_row, of.step);
        const A beta = head == 0 && query == first_query ? A(0) : A(1);
        tile_multiply(member, kYes, kNo, columns, d, rows, A(1), scores, kTile, douts.data,
                      douts.distance, beta, dv_sums.data, dv_sums.distance);
        tile_multiply(member, kYes, kNo, columns, d, rows, scale, products, kTile, queries.data,
                      queries.distance, beta, dk_sums.data, dk_sums.distance);
        tile_multiply(member, kNo, kNo, rows, d, columns, scale, products, kTile, keys.data,
                      keys.distance, A(1), dq + query_at, distance);
      }
    }
    store_tile(member, columns, d, dk_sums, dk + key_at, key_distance);
    store_tile(member, columns, d, dv_sums, dv + key_at, key_distance);
  }
}

/// Where a segment of keys sums its part of dq [query rows x d], `size` elements: the first in
/// place if it can, the others in `partial`.
template <class T>
KOKKOS_INLINE_FUNCTION Accumulate<T>* segment_sums(T* dq, Accumulate<T>* partial,
                                                   std::int64_t segment, std::int64_t size) {
  if constexpr (kInPlace<T>) {
    return segment == 0 ? dq : partial + (segment - 1) * size;
  } else {
    return partial + segment * size;
  }
}

template <class T>
void attention(const Device& exec, const AttentionWork& work, const MatrixIn<T>& q,
               const MatrixIn<T>& k, const MatrixIn<T>& v, const Matrix<T>& out,
               const Vector<Accumulate<T>>& log_sum_exp) {
  const auto d = static_cast<std::int64_t>(k.extent(1));
  const std::int64_t queries_per_key = work.queries_per_key;
  require_packed<T>(work, queries_per_key * d, "attention: q", q);
  require_packed<T>(work, d, "attention: k", k);
  require_packed<T>(work, d, "attention: v", v);
  require_packed<T>(work, queries_per_key * d, "attention: out", out);
  require_extents("attention: log_sum_exp", log_sum_exp, {work.head_rows * queries_per_key});
  if (work.queries.extent(0) == 0) return;
  const auto items = work.queries;
  const bool causal = work.causal;
  const auto scale = static_cast<Accumulate<T>>(1 / std::sqrt(static_cast<double>(d)));
  Kokkos::parallel_for(
      "KnapFormer::attention",
      policy_for<T>(exec, static_cast<std::int64_t>(items.extent(0)), 1, 3, d),
      KOKKOS_LAMBDA(const TeamMember& member) {
        attend(member, items(member.league_rank()), causal, queries_per_key, d, scale, q.data(),
               k.data(), v.data(), out.data(), log_sum_exp.data());
      });
}

template <class T>
void attention_backward(const Device& exec, const AttentionWork& work, const MatrixIn<T>& q,
                        const MatrixIn<T>& k, const MatrixIn<T>& v, const MatrixIn<T>& out,
                        const VectorIn<Accumulate<T>>& log_sum_exp, const MatrixIn<T>& dout,
                        const Vector<Accumulate<T>>& workspace, const Matrix<T>& dq,
                        const Matrix<T>& dk, const Matrix<T>& dv) {
  const auto d = static_cast<std::int64_t>(k.extent(1));
  const std::int64_t queries_per_key = work.queries_per_key, q_columns = queries_per_key * d;
  require_packed<T>(work, q_columns, "attention_backward: q", q);
  require_packed<T>(work, d, "attention_backward: k", k);
  require_packed<T>(work, d, "attention_backward: v", v);
  require_packed<T>(work, q_columns, "attention_backward: out", out);
  require_packed<T>(work, q_columns, "attention_backward: dout", dout);
  require_packed<T>(work, q_columns, "attention_backward: dq", dq);
  require_packed<T>(work, d, "attention_backward: dk", dk);
  require_packed<T>(work, d, "attention_backward: dv", dv);
  const std::int64_t query_rows = work.head_rows * queries_per_key;  // of width d
  require_extents("attention_backward: log_sum_exp", log_sum_exp, {query_rows});
  require_extents("attention_backward: workspace", workspace, {attention_workspace<T>(work, d)});
  if (work.keys.extent(0) == 0) return;
  const auto items = work.keys;
  const bool causal = work.causal;
  const auto scale = static_cast<Accumulate<T>>(1 / std::sqrt(static_cast<double>(d)));
  const std::int64_t segments = work.segments, size = query_rows * d;
  using A = Accumulate<T>;
  A* const delta = workspace.data();
  A* const partial = delta + query_rows;

  for_each_row(
      "KnapFormer::attention_delta", exec, query_rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        const T* const a = out.data() + row * d;
        const T* const b = dout.data() + row * d;
        delta[row] = lane_sum<A>(member, d, [=](std::int64_t c) { return a[c] * b[c]; });
        for (std::int64_t segment = 0; segment < segments; ++segment) {
          A* const to = segment_sums(dq.data(), partial, segment, size) + row * d;
          lane_for(member, d, [=](std::int64_t c) { to[c] = 0; });
        }
      });
  Kokkos::parallel_for(
      "KnapFormer::attention_backward",
      policy_for<T>(exec, static_cast<std::int64_t>(items.extent(0)), 2, 6, d),
      KOKKOS_LAMBDA(const TeamMember& member) {
        const AttentionItem item = items(member.league_rank());
        attend_backward(member, item, causal, queries_per_key, d, scale, q.data(), k.data(),
                        v.data(), log_sum_exp.data(), dout.data(), delta,
                        segment_sums(dq.data(), partial, item.segment, size), dk.data(), dv.data());
      });
  if (segments == 1 && kInPlace<T>) return;
  for_each_row(
      "KnapFormer::attention_dq", exec, query_rows,
      KOKKOS_LAMBDA(const TeamMember& member, std::int64_t row) {
        T* const to = dq.data() + row * d;
        A* const sums = segment_sums(dq.data(), partial, 0, size) + row * d;
        for (std::int64_t segment = 1; segment < segments; ++segment) {
          const A* const from = segment_sums(dq.data(), partial, segment, size) + row * d;
          lane_for(member, d, [=](std::int64_t c) { sums[c] += from[c]; });
        }
        if (static_cast<const void*>(sums) == to) return;
        lane_for(member, d, [=](std::int64_t c) { to[c] = sums[c]; });
      });
}

#define KNAPFORMER_INSTANTIATE(T)                                                                 \
  template void attention<T>(const Device&, const AttentionWork&, const MatrixIn<T>&,             \
                             const MatrixIn<T>&, const MatrixIn<T>&, const Matrix<T>&,            \
                             const Vector<Accumulate<T>>&);                                       \
  template void attention_backward<T>(                                                            \
      const Device&, const AttentionWork&, const MatrixIn<T>&, const MatrixIn<T>&,                \
      const MatrixIn<T>&, const MatrixIn<T>&, const VectorIn<Accumulate<T>>&, const MatrixIn<T>&, \
      const Vector<Accumulate<T>>&, const Matrix<T>&, const Matrix<T>&, const Matrix<T>&);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)
KNAPFORMER_INSTANTIATE(bfloat16)

}  // namespace knapformer::kernels
