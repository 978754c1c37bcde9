// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <array>
#include <cstdint>
#include <knapformer/comm/communicator.hpp>
#include <knapformer/plan/plan.hpp>
#include <knapformer/route/attention_problem.hpp>
#include <knapformer/route/rows.hpp>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace knapformer {

/// A chunk that this rank computes: rows [first_row, first_row + chunk.tokens) of its routed
/// buffers.
struct LocalChunk {
  std::int64_t sequence = 0;   ///< index in the plan
  std::int64_t first_row = 0;  ///< of the routed rows
  Chunk chunk;                 ///< as the plan has it
};

/// The ways in which rows move. The last one sums them where they arrive.
enum class Movement {
  kRoute,                 ///< home rows to routed rows
  kReverseRoute,          ///< and back
  kPreAttention,          ///< routed rows of all heads to head buffers
  kPostAttention,         ///< and back
  kRouteSequences,        ///< a row of a sequence to a row of each of its chunks
  kRouteSequencesAdjoint  ///< sums those at the home of the sequence
};

/// Waits in the profiling region of the movement.
void wait_for(Request& request, Movement movement);

/// Views that a started exchange will fill. wait() returns them.
template <class... Views>
class Pending {
 public:
  /// For the library: what wait() will wait for and return.
  Pending(Request request, Movement movement, std::tuple<Views...> views)
      : request_(std::move(request)), movement_(movement), views_(std::move(views)) {}
  /// Waits (see Request::wait) and returns the filled views: the view itself when there is one.
  /// They are ready for work enqueued on the instance that the exchange was started with.
  auto wait() {
    wait_for(request_, movement_);
    if constexpr (sizeof...(Views) == 1) {
      return std::get<0>(views_);
    } else {
      return views_;
    }
  }

 private:
  Request request_;
  Movement movement_;
  std::tuple<Views...> views_;
};

/// A plan made ready to run on one rank. A value: cheap to copy, immutable, outlives the Balancer.
///
/// Words: *home* rows are this rank's own sequences as it loaded them, packed; *routed* rows are
/// the chunks it computes, packed in the plan's order of sequences. q, k, v are [rows x heads x
/// d_head]; after pre-attention they are head buffers (see AttentionProblem). What belongs to whole
/// sequences has one row for each home sequence, and after routing one for each of chunks().
///
/// Every operation is collective over the group: all ranks call the same ones in the same order, a
/// rank without rows too. It takes any number of views (see RowView) of any types, which travel in
/// one exchange, their bytes unchanged unless they are summed. All enqueue on `exec` and fence it
/// before MPI sees the bytes. A view of the wrong extent or too little memory on any rank, and
/// plans, widths or types that differ between ranks, make every rank throw (see Communicator), here
/// or in its next collective call.
///
/// Each operation has four forms:
///     auto outputs = routing.route(exec, views...);
///     auto outputs = routing.start_route(exec, views...).wait();
///     routing.route_into(exec, std::tie(outputs...), views...);
///     routing.start_route_into(exec, std::tie(outputs...), views...).wait();
/// The last two fill views of the caller, shaped like the results of the first two.
class Routing {
 public:
  /// Not collective. Throws Error unless the plan is for as many ranks as the group has. Takes host
  /// memory for its lists; their copies on the device take that of routings that are gone. Fences
  /// all instances, any of which may still read those.
  Routing(Communicator group, Plan plan);

  const Plan& plan() const;             ///< which it carries out
  const Communicator& group() const;    ///< the ranks that take part
  std::int64_t home_rows() const;       ///< tokens of this rank's own sequences
  std::int64_t routed_rows() const;     ///< tokens that this rank computes
  std::int64_t head_rows() const;       ///< rows of a head buffer here
  std::int64_t home_sequences() const;  ///< this rank's own, those without tokens too
  std::span<const LocalChunk> chunks()
      const;  ///< that this rank computes, in the order of the routed rows

  /// Those of sequences that this rank has for itself come first, in the first unsplit_head_rows()
  /// rows of head buffers; each part is in the plan's order.
  std::span<const AttentionProblem> attention_problems() const;
  std::int64_t unsplit_head_rows() const;  ///< head rows of sequences that this rank has for itself

  // What each movement of one view makes this rank send to other ranks, in rows of that view; for
  // pre- and post-attention in head rows [d_head].
  std::int64_t routed_away_rows() const;         ///< route
  std::int64_t routed_back_rows() const;         ///< reverse route
  std::int64_t attention_rows_sent() const;      ///< pre-attention
  std::int64_t attention_rows_returned() const;  ///< post-attention
  std::int64_t sequence_rows_sent() const;       ///< route_sequences
  std::int64_t sequence_rows_returned() const;   ///< its adjoint

  /// @{
  /// Home rows to routed rows. The first dimension of every view is home_rows(), that of the
  /// results routed_rows(); the others stay.
  auto start_route(const Device& exec, const RowView auto&... views) const {
    return start_new<Movement::kRoute>(exec, views...);
  }
  auto route(const Device& exec, const RowView auto&... views) const {
    return start_route(exec, views...).wait();
  }
  auto start_route_into(const Device& exec, const auto& outputs,
                        const RowView auto&... views) const {
    return start_into<Movement::kRoute>(exec, outputs, views...);
  }
  void route_into(const Device& exec, const auto& outputs, const RowView auto&... views) const {
    start_route_into(exec, outputs, views...).wait();
  }
  /// @}

  /// @{
  /// Routed rows back to home rows.
  auto start_reverse_route(const Device& exec, const RowView auto&... views) const {
    return start_new<Movement::kReverseRoute>(exec, views...);
  }
  auto reverse_route(const Device& exec, const RowView auto&... views) const {
    return start_reverse_route(exec, views...).wait();
  }
  auto start_reverse_route_into(const Device& exec, const auto& outputs,
                                const RowView auto&... views) const {
    return start_into<Movement::kReverseRoute>(exec, outputs, views...);
  }
  void reverse_route_into(const Device& exec, const auto& outputs,
                          const RowView auto&... views) const {
    start_reverse_route_into(exec, outputs, views...).wait();
  }
  /// @}

  /// @{
  /// q, k, v of this rank's tokens [routed_rows x heads x d_head] to head buffers
  /// [head_rows x d_head]. Where n query heads share each head of keys, the plan's heads are those
  /// of keys, and q is [routed_rows x heads x n * d_head] and [head_rows x n * d_head]. Only
  /// sequences with a degree above 1 travel: work enqueued on `exec` after the start finds the
  /// first unsplit_head_rows() rows in place.
  auto start_pre_attention(const Device& exec, const RowView auto&... views) const {
    return start_new<Movement::kPreAttention>(exec, views...);
  }
  auto pre_attention(const Device& exec, const RowView auto&... views) const {
    return start_pre_attention(exec, views...).wait();
  }
  auto start_pre_attention_into(const Device& exec, const auto& outputs,
                                const RowView auto&... views) const {
    return start_into<Movement::kPreAttention>(exec, outputs, views...);
  }
  void pre_attention_into(const Device& exec, const auto& outputs,
                          const RowView auto&... views) const {
    start_pre_attention_into(exec, outputs, views...).wait();
  }
  /// @}

  /// @{
  /// Head buffers back to [routed_rows x heads x d_head].
  auto start_post_attention(const Device& exec, const RowView auto&... views) const {
    return start_new<Movement::kPostAttention>(exec, views...);
  }
  auto post_attention(const Device& exec, const RowView auto&... views) const {
    return start_post_attention(exec, views...).wait();
  }
  auto start_post_attention_into(const Device& exec, const auto& outputs,
                                 const RowView auto&... views) const {
    return start_into<Movement::kPostAttention>(exec, outputs, views...);
  }
  void post_attention_into(const Device& exec, const auto& outputs,
                           const RowView auto&... views) const {
    start_post_attention_into(exec, outputs, views...).wait();
  }
  /// @}

  /// @{
  /// Rows of whole sequences, such as conditioning vectors, to the ranks of their bags and nowhere
  /// else: [home_sequences x ...] to [chunks x ...], so that chunk i finds its sequence's row at i.
  /// A sequence without tokens has no chunk, and its row goes nowhere.
  auto start_route_sequences(const Device& exec, const RowView auto&... views) const {
    return start_new<Movement::kRouteSequences>(exec, views...);
  }
  auto route_sequences(const Device& exec, const RowView auto&... views) const {
    return start_route_sequences(exec, views...).wait();
  }
  auto start_route_sequences_into(const Device& exec, const auto& outputs,
                                  const RowView auto&... views) const {
    return start_into<Movement::kRouteSequences>(exec, outputs, views...);
  }
  void route_sequences_into(const Device& exec, const auto& outputs,
                            const RowView auto&... views) const {
    start_route_sequences_into(exec, outputs, views...).wait();
  }
  /// @}

  // The transposes. Each takes cotangents shaped like the results of the operation that it belongs
  // to, and returns cotangents shaped like its arguments.

  /// @{
  /// Sums the rows of all chunks of a sequence at its home, one after another in bag order, so that
  /// every run gives the same bits; zeros for a sequence without tokens. double, float and bfloat16.
  auto start_route_sequences_adjoint(const Device& exec, const RowView auto&... views) const {
    return start_new<Movement::kRouteSequencesAdjoint>(exec, views...);
  }
  auto route_sequences_adjoint(const Device& exec, const RowView auto&... views) const {
    return start_route_sequences_adjoint(exec, views...).wait();
  }
  auto start_route_sequences_adjoint_into(const Device& exec, const auto& outputs,
                                          const RowView auto&... views) const {
    return start_into<Movement::kRouteSequencesAdjoint>(exec, outputs, views...);
  }
  void route_sequences_adjoint_into(const Device& exec, const auto& outputs,
                                    const RowView auto&... views) const {
    start_route_sequences_adjoint_into(exec, outputs, views...).wait();
  }
  /// @}

  // The other operations permute rows over the whole group, and the transpose of a permutation is
  // its inverse: the operation back.

  /// @{
  /// Of route: cotangents of routed rows to those of home rows.
  auto start_route_adjoint(const Device& exec, const RowView auto&... views) const {
    return start_reverse_route(exec, views...);
  }
  auto route_adjoint(const Device& exec, const RowView auto&... views) const {
    return reverse_route(exec, views...);
  }
  auto start_route_adjoint_into(const Device& exec, const auto& outputs,
                                const RowView auto&... views) const {
    return start_reverse_route_into(exec, outputs, views...);
  }
  void route_adjoint_into(const Device& exec, const auto& outputs,
                          const RowView auto&... views) const {
    reverse_route_into(exec, outputs, views...);
  }
  /// @}

  /// @{
  /// Of reverse_route: cotangents of home rows to those of routed rows.
  auto start_reverse_route_adjoint(const Device& exec, const RowView auto&... views) const {
    return start_route(exec, views...);
  }
  auto reverse_route_adjoint(const Device& exec, const RowView auto&... views) const {
    return route(exec, views...);
  }
  auto start_reverse_route_adjoint_into(const Device& exec, const auto& outputs,
                                        const RowView auto&... views) const {
    return start_route_into(exec, outputs, views...);
  }
  void reverse_route_adjoint_into(const Device& exec, const auto& outputs,
                                  const RowView auto&... views) const {
    route_into(exec, outputs, views...);
  }
  /// @}

  /// @{
  /// Of pre_attention: cotangents of head buffers to those of this rank's tokens.
  auto start_pre_attention_adjoint(const Device& exec, const RowView auto&... views) const {
    return start_post_attention(exec, views...);
  }
  auto pre_attention_adjoint(const Device& exec, const RowView auto&... views) const {
    return post_attention(exec, views...);
  }
  auto start_pre_attention_adjoint_into(const Device& exec, const auto& outputs,
                                        const RowView auto&... views) const {
    return start_post_attention_into(exec, outputs, views...);
  }
  void pre_attention_adjoint_into(const Device& exec, const auto& outputs,
                                  const RowView auto&... views) const {
    post_attention_into(exec, outputs, views...);
  }
  /// @}

  /// @{
  /// Of post_attention: cotangents of this rank's tokens to those of head buffers.
  auto start_post_attention_adjoint(const Device& exec, const RowView auto&... views) const {
    return start_pre_attention(exec, views...);
  }
  auto post_attention_adjoint(const Device& exec, const RowView auto&... views) const {
    return pre_attention(exec, views...);
  }
  auto start_post_attention_adjoint_into(const Device& exec, const auto& outputs,
                                         const RowView auto&... views) const {
    return start_pre_attention_into(exec, outputs, views...);
  }
  void post_attention_adjoint_into(const Device& exec, const auto& outputs,
                                   const RowView auto&... views) const {
    pre_attention_into(exec, outputs, views...);
  }
  /// @}

  /// All of the above without types: moves the rows of `from` to `to`, one output for each input.
  /// The token side of pre- and post-attention has plan().heads() items a row, all others one. Sums
  /// need to know the element.
  /// `keep_alive` holds the memory until the request is done.
  Request start(const Device& exec, Movement movement, std::span<const ConstRows> from,
                std::span<const Rows> to, std::shared_ptr<void> keep_alive = {}) const;

 private:
  struct Data;

  std::int64_t output_rows(Movement movement) const;

  /// The view that receives what `view` sends.
  template <Movement kMovement, class V>
  auto make_output(const Device& exec, const V& view) const {
    using T = typename V::non_const_value_type;
    const auto alloc =
        Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "KnapFormer::moved rows");
    const auto rows = static_cast<std::size_t>(output_rows(kMovement));
    if constexpr (kMovement == Movement::kPreAttention) {
      static_assert(V::rank() == 3, "pre-attention takes [routed_rows x heads x d_head]");
      return Kokkos::View<T**, Kokkos::LayoutRight, Device>(alloc, rows, view.extent(2));
    } else if constexpr (kMovement == Movement::kPostAttention) {
      static_assert(V::rank() == 2, "post-attention takes head buffers [head_rows x d_head]");
      return Kokkos::View<T***, Kokkos::LayoutRight, Device>(alloc, rows, plan().heads(),
                                                             view.extent(1));
    } else {
      auto layout = view.layout();
      layout.dimension[0] = rows;
      return Kokkos::View<typename V::non_const_data_type, typename V::array_layout, Device>(
          alloc, layout);
    }
  }

  template <Movement kMovement, class... V>
  auto start_new(const Device& exec, const V&... views) const {
    return group().guard([&] {  // memory may be short on this rank alone
      return start_into<kMovement>(exec, std::tuple(make_output<kMovement>(exec, views)...),
                                   views...);
    });
  }

  template <Movement kMovement, class... Out, class... V>
  auto start_into(const Device& exec, const std::tuple<Out...>& outputs, const V&... views) const {
    using Outputs = std::tuple<std::decay_t<Out>...>;
    static_assert(sizeof...(V) > 0 && sizeof...(Out) == sizeof...(V), "one output for each input");
    static_assert(
        (std::is_same_v<typename std::decay_t<Out>::value_type, typename V::non_const_value_type> &&
         ...),
        "outputs have the types of the inputs, and are not const");
    static_assert(kMovement != Movement::kRouteSequencesAdjoint ||
                      ((element_of<typename V::value_type> != Element::kOther) && ...),
                  "float, double and bfloat16 are summed");
    constexpr bool kFromTokens = kMovement == Movement::kPreAttention;
    constexpr bool kToTokens = kMovement == Movement::kPostAttention;
    const std::array<ConstRows, sizeof...(V)> from{rows_of(views, kFromTokens)...};
    const auto to = std::apply(
        [](const auto&... out) {
          return std::array<Rows, sizeof...(Out)>{rows_of(out, kToTokens)...};
        },
        outputs);
    Outputs filled(outputs);
    auto keep = make_recycled<std::pair<std::tuple<V...>, Outputs>>(
        group().host_memory(), std::tuple<V...>(views...), filled);
    return Pending(start(exec, kMovement, from, to, std::move(keep)), kMovement, std::move(filled));
  }

  std::shared_ptr<const Data> data_;
};

}  // namespace knapformer
