// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <Kokkos_Profiling_ScopedRegion.hpp>
#include <algorithm>
#include <knapformer/model/routed_attention.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/observed.hpp"

namespace knapformer {
namespace {

/// The rows of head buffers that one of the two parts of attention works in.
struct HeadPart {
  const kernels::AttentionWork& work;
  std::int64_t first_row;

  template <class T>
  Matrix<T> of(const Matrix<T>& heads) const {
    const auto columns = static_cast<std::int64_t>(heads.extent(1));
    return Matrix<T>(heads.data() + first_row * columns, work.head_rows, columns);
  }
  template <class T>
  Vector<T> of(const Vector<T>& query_heads) const {
    return Vector<T>(query_heads.data() + first_row * work.queries_per_key,
                     work.head_rows * work.queries_per_key);
  }
};
HeadPart unsplit_part(const RoutedAttention& all) { return {all.unsplit, 0}; }
HeadPart split_part(const RoutedAttention& all) { return {all.split, all.unsplit.head_rows}; }

template <class T>
void attend_part(const Device& exec, const HeadPart& part, const HeadActivations<T>& saved) {
  static const std::string kRegion = "KnapFormer::attention";
  const Kokkos::Profiling::ScopedRegion region(kRegion);
  kernels::attention<T>(exec, part.work, part.of(saved.q), part.of(saved.k), part.of(saved.v),
                        part.of(saved.out), part.of(saved.log_sum_exp));
}

template <class T>
void attend_part_backward(const Device& exec, const HeadPart& part, const HeadActivations<T>& saved,
                          const HeadScratch<T>& scratch) {
  static const std::string kRegion = "KnapFormer::attention";
  const Kokkos::Profiling::ScopedRegion region(kRegion);
  const Vector<Accumulate<T>> workspace(
      scratch.workspace.data(),
      kernels::attention_workspace<T>(part.work, static_cast<std::int64_t>(saved.k.extent(1))));
  kernels::attention_backward<T>(exec, part.work, part.of(saved.q), part.of(saved.k),
                                 part.of(saved.v), part.of(saved.out), part.of(saved.log_sum_exp),
                                 part.of(scratch.d_out), workspace, part.of(scratch.dq),
                                 part.of(scratch.dk), part.of(scratch.dv));
}

/// The same rows with the heads of the plan told apart: all queries that share keys are one.
template <class View, class T>
HeadRows<T> by_key(const View& rows, const HeadScratch<T>& shape) {
  const std::size_t width = shape.q.extent(1) * shape.q.extent(2), heads = shape.k.extent(1);
  return HeadRows<T>(rows.data(), rows.extent(0), heads, width / heads);
}

}  // namespace

RoutedAttention make_routed_attention(const Device& exec, const Routing& routing, bool causal,
                                      std::int64_t queries_per_key, RoutedAttention old) {
  const auto problems = routing.attention_problems();
  const std::int64_t first_split = routing.unsplit_head_rows();
  std::vector<AttentionProblem> unsplit, split;
  for (AttentionProblem problem : problems) {
    const bool is_split = problem.offset >= first_split;
    if (is_split) problem.offset -= first_split;
    (is_split ? split : unsplit).push_back(problem);
  }
  const auto work = [&](const auto& part, kernels::AttentionWork& memory) {
    return kernels::make_attention_work(exec, part, causal, queries_per_key, 0, std::move(memory));
  };
  return {work(unsplit, old.unsplit), work(split, old.split)};
}

std::int64_t RoutedAttention::bytes() const {
  const auto items = static_cast<std::int64_t>(unsplit.memory.span() + split.memory.span());
  return items * static_cast<std::int64_t>(sizeof(kernels::AttentionItem));
}

template <class T>
void HeadActivations<T>::take(typename Arena<T>::Cursor& cursor, const Routing& routing,
                              std::int64_t d_head, std::int64_t queries_per_key) {
  const std::int64_t rows = routing.head_rows();
  for (Matrix<T>* heads : {&q, &out}) *heads = cursor.matrix(rows, queries_per_key * d_head);
  for (Matrix<T>* heads : {&k, &v}) *heads = cursor.matrix(rows, d_head);
  log_sum_exp = cursor.wide_vector(rows * queries_per_key);
}

template <class T>
void HeadScratch<T>::take(typename Arena<T>::Cursor& cursor, const Routing& routing,
                          const RoutedAttention& attention, std::int64_t d_head) {
  const std::int64_t queries_per_key = attention.unsplit.queries_per_key;
  const std::int64_t tokens = routing.routed_rows(), kv_heads = routing.plan().heads();
  q = cursor.head_rows(tokens, queries_per_key * kv_heads, d_head);
  for (HeadRows<T>* view : {&k, &v}) *view = cursor.head_rows(tokens, kv_heads, d_head);
  const std::int64_t rows = routing.head_rows();
  for (Matrix<T>* view : {&d_out, &dq}) *view = cursor.matrix(rows, queries_per_key * d_head);
  for (Matrix<T>* view : {&dk, &dv}) *view = cursor.matrix(rows, d_head);
  workspace =
      cursor.wide_vector(std::max(kernels::attention_workspace<T>(attention.unsplit, d_head),
                                  kernels::attention_workspace<T>(attention.split, d_head)));
}

template <class T>
void attend(const BlockContext<T>& context, const HeadScratch<T>& scratch,
            const HeadActivations<T>& saved, const Matrix<T>& mixed) {
  const Device& exec = context.exec;
  auto heads = model::observed(exec, context.observer, [&] {
    return context.routing.start_pre_attention_into(exec, std::tie(saved.q, saved.k, saved.v),
                                                    by_key(scratch.q, scratch), scratch.k,
                                                    scratch.v);
  });
  attend_part(exec, unsplit_part(context.attention), saved);
  model::observed(exec, context.observer, [&] { return heads.wait(); });
  attend_part(exec, split_part(context.attention), saved);
  model::observed(exec, context.observer, [&] {
    return context.routing
        .start_post_attention_into(exec, std::tuple(by_key(mixed, scratch)), saved.out)
        .wait();
  });
}

template <class T>
void attend_backward(const BlockContext<T>& context, const HeadActivations<T>& saved,
                     const HeadScratch<T>& scratch, const Matrix<T>& d_mixed) {
  const Device& exec = context.exec;
  auto heads = model::observed(exec, context.observer, [&] {
    return context.routing.start_post_attention_adjoint_into(exec, std::tie(scratch.d_out),
                                                             by_key(d_mixed, scratch));
  });
  attend_part_backward(exec, unsplit_part(context.attention), saved, scratch);
  model::observed(exec, context.observer, [&] { return heads.wait(); });
  attend_part_backward(exec, split_part(context.attention), saved, scratch);
  model::observed(exec, context.observer, [&] {
    return context.routing
        .start_pre_attention_adjoint_into(
            exec, std::tuple(by_key(scratch.q, scratch), scratch.k, scratch.v), scratch.dq,
            scratch.dk, scratch.dv)
        .wait();
  });
}

#define KNAPFORMER_INSTANTIATE(T)                                                     \
  template struct HeadActivations<T>;                                                 \
  template struct HeadScratch<T>;                                                     \
  template void attend<T>(const BlockContext<T>&, const HeadScratch<T>&,              \
                          const HeadActivations<T>&, const Matrix<T>&);               \
  template void attend_backward<T>(const BlockContext<T>&, const HeadActivations<T>&, \
                                   const HeadScratch<T>&, const Matrix<T>&);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(double)
KNAPFORMER_INSTANTIATE(bfloat16)

}  // namespace knapformer
