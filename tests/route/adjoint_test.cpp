// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// <A x, y> = <x, A^T y> over the whole group, for every operation. The values are small
// integers, so both sides are exact and compared for equality.

#include <gtest/gtest.h>

#include <iterator>

#include "route/route_support.hpp"

namespace knapformer {
namespace {

using namespace test;  // NOLINT: a test file

using Matrix = Kokkos::View<double**, Kokkos::LayoutRight, Device>;
using PerHead = Kokkos::View<double***, Kokkos::LayoutRight, Device>;

constexpr std::int64_t kHeads = 7;
constexpr std::int64_t kWidth = 3;

template <class V, class... Extents>
V random_view(std::mt19937_64& random, Extents... extents) {
  V view("random", static_cast<std::size_t>(extents)...);
  Kokkos::View<double*, Kokkos::HostSpace> host("host", view.size());
  for (std::size_t i = 0; i < view.size(); ++i)
    host(i) = static_cast<double>(random() % 2001) - 1000;
  Kokkos::deep_copy(Kokkos::View<double*, Device, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
                        view.data(), view.size()),
                    host);
  return view;
}

template <class V>
double dot(const Communicator& group, const V& a, const V& b) {
  const auto x = values(a);
  const auto y = values(b);
  EXPECT_EQ(x.size(), y.size());
  double mine = 0;
  for (std::size_t i = 0; i < x.size(); ++i) mine += x[i] * y[i];
  double sum = 0;
  for (const double part : group.all_gather(std::span<const double>(&mine, 1))) sum += part;
  return sum;
}

TEST(Adjoint, IsTheTransposeOfEachOperation) {
  const Communicator group = world();
  const Device exec;
  for_all_routings(group, kHeads, {20, 21, 22}, [&](const Routing& routing) {
    std::mt19937_64 random(20 + 77 * static_cast<std::uint64_t>(group.rank()));
    const auto home = random_view<Matrix>(random, routing.home_rows(), kWidth);
    const auto routed = random_view<Matrix>(random, routing.routed_rows(), kWidth);
    EXPECT_EQ(dot(group, routing.route(exec, home), routed),
              dot(group, home, routing.route_adjoint(exec, routed)));
    EXPECT_EQ(dot(group, routing.reverse_route(exec, routed), home),
              dot(group, routed, routing.reverse_route_adjoint(exec, home)));

    const auto tokens = random_view<PerHead>(random, routing.routed_rows(), kHeads, kWidth);
    const auto heads = random_view<Matrix>(random, routing.head_rows(), kWidth);
    EXPECT_EQ(dot(group, routing.pre_attention(exec, tokens), heads),
              dot(group, tokens, routing.pre_attention_adjoint(exec, heads)));
    EXPECT_EQ(dot(group, routing.post_attention(exec, heads), tokens),
              dot(group, heads, routing.post_attention_adjoint(exec, tokens)));

    const auto sequences = random_view<Matrix>(random, routing.home_sequences(), kWidth);
    const auto chunks = random_view<Matrix>(random, std::ssize(routing.chunks()), kWidth);
    EXPECT_EQ(dot(group, routing.route_sequences(exec, sequences), chunks),
              dot(group, sequences, routing.route_sequences_adjoint(exec, chunks)));
  });
}

TEST(Adjoint, AllFormsAgree) {
  const Communicator group = world();
  const Device exec;
  const Routing routing(group, uneven_plan(group.size(), kHeads, 31));
  std::mt19937_64 random(static_cast<std::uint64_t>(group.rank()));
  const auto home = random_view<Matrix>(random, routing.home_rows(), kWidth);
  const auto routed = random_view<Matrix>(random, routing.routed_rows(), kWidth);
  const auto tokens = random_view<PerHead>(random, routing.routed_rows(), kHeads, kWidth);
  const auto heads = random_view<Matrix>(random, routing.head_rows(), kWidth);

  const auto sequences = random_view<Matrix>(random, routing.home_sequences(), kWidth);
  const auto chunks = random_view<Matrix>(random, std::ssize(routing.chunks()), kWidth);

  const Matrix to_home("out", home.extent(0), kWidth);
  const Matrix to_routed("out", routed.extent(0), kWidth);
  const PerHead to_tokens("out", tokens.extent(0), kHeads, kWidth);
  const Matrix to_heads("out", heads.extent(0), kWidth);
  const Matrix to_sequences("out", sequences.extent(0), kWidth);
  const Matrix to_chunks("out", chunks.extent(0), kWidth);

  routing.route_adjoint_into(exec, std::tie(to_home), routed);
  EXPECT_EQ(values(to_home), values(routing.start_route_adjoint(exec, routed).wait()));
  routing.reverse_route_adjoint_into(exec, std::tie(to_routed), home);
  EXPECT_EQ(values(to_routed), values(routing.start_reverse_route_adjoint(exec, home).wait()));
  routing.pre_attention_adjoint_into(exec, std::tie(to_tokens), heads);
  EXPECT_EQ(values(to_tokens), values(routing.start_pre_attention_adjoint(exec, heads).wait()));
  routing.post_attention_adjoint_into(exec, std::tie(to_heads), tokens);
  EXPECT_EQ(values(to_heads), values(routing.start_post_attention_adjoint(exec, tokens).wait()));

  routing.start_route_adjoint_into(exec, std::tuple(to_home), routed).wait();
  EXPECT_EQ(values(to_home), values(routing.reverse_route(exec, routed)));
  routing.start_reverse_route_adjoint_into(exec, std::tuple(to_routed), home).wait();
  EXPECT_EQ(values(to_routed), values(routing.route(exec, home)));
  routing.start_pre_attention_adjoint_into(exec, std::tuple(to_tokens), heads).wait();
  EXPECT_EQ(values(to_tokens), values(routing.post_attention(exec, heads)));
  routing.start_post_attention_adjoint_into(exec, std::tuple(to_heads), tokens).wait();
  EXPECT_EQ(values(to_heads), values(routing.pre_attention(exec, tokens)));

  routing.route_sequences_into(exec, std::tie(to_chunks), sequences);
  EXPECT_EQ(values(to_chunks), values(routing.start_route_sequences(exec, sequences).wait()));
  routing.route_sequences_adjoint_into(exec, std::tie(to_sequences), chunks);
  EXPECT_EQ(values(to_sequences),
            values(routing.start_route_sequences_adjoint(exec, chunks).wait()));
  routing.start_route_sequences_into(exec, std::tuple(to_chunks), sequences).wait();
  EXPECT_EQ(values(to_chunks), values(routing.route_sequences(exec, sequences)));
  routing.start_route_sequences_adjoint_into(exec, std::tuple(to_sequences), chunks).wait();
  EXPECT_EQ(values(to_sequences), values(routing.route_sequences_adjoint(exec, chunks)));
}

}  // namespace
}  // namespace knapformer
