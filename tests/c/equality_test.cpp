// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The C interface plans what the C++ one plans, and moves the same bytes to the same place.

#include <gtest/gtest.h>
#include <knapformer/knapformer.h>

#include <cstring>
#include <optional>

#include "route/route_support.hpp"

namespace knapformer::test {
namespace {

constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kHeadWidth = 3;

using Matrix = Kokkos::View<double**, Kokkos::LayoutRight, Device>;
using PerHead = Kokkos::View<double***, Kokkos::LayoutRight, Device>;

/// Whether both arrays hold the same; those of C may be NULL when they are empty.
template <class C, class T>
bool same(const C* array, std::int64_t count, std::span<const T> expected) {
  return count == std::ssize(expected) && sizeof(C) == sizeof(T) &&
         (count == 0 || std::memcmp(array, expected.data(), expected.size_bytes()) == 0);
}

/// The same group, balancer and routing in both languages.
class Equality : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string topology = GetParam() == "bag" ? join("g", group.size(), "n1") : GetParam();
    knapformer_balancer_options options;
    knapformer_balancer_options_init(&options);
    options.plan.topology = topology.c_str();
    options.plan.d_model = 16;
    options.plan.heads = kHeads;
    ASSERT_EQ(knapformer_communicator_create(MPI_COMM_WORLD, nullptr, &c_group), 0);
    ASSERT_EQ(knapformer_balancer_create(c_group, &options, &c_balancer), 0);
    const auto lengths = random_lengths(7, group.rank());
    routing = balancer(group, topology, kHeads).prepare(lengths);
    ASSERT_EQ(knapformer_balancer_prepare(c_balancer, std::ssize(lengths), lengths.data(), nullptr,
                                          &c_routing),
              0)
        << knapformer_error_message();
  }
  void TearDown() override {
    knapformer_routing_destroy(&c_routing);
    knapformer_balancer_destroy(&c_balancer);
    knapformer_communicator_destroy(&c_group);
  }

  /// Fills `to` by C. Row counts as the views have them.
  template <class To, class From>
  void expect_same(int movement, const To& expected, const From& from) const {
    const To to("to", expected.layout());
    const auto bytes = static_cast<std::int64_t>(sizeof(double) * from.extent(from.rank() - 1));
    const knapformer_rows rows{from.data(),
                               to.data(),
                               static_cast<std::int64_t>(from.extent(0)),
                               static_cast<std::int64_t>(to.extent(0)),
                               bytes,
                               KNAPFORMER_DOUBLE};
    ASSERT_EQ(knapformer_routing_move(c_routing, movement, nullptr, 1, &rows), 0)
        << knapformer_error_message();
    ASSERT_EQ(knapformer_exec_fence(nullptr), 0);
    EXPECT_EQ(values(to), values(expected)) << "movement " << movement;
  }

  const Device exec;
  const Communicator group = world();
  std::optional<Routing> routing;
  knapformer_communicator* c_group = nullptr;
  knapformer_balancer* c_balancer = nullptr;
  knapformer_routing* c_routing = nullptr;
};

TEST_P(Equality, Plans) {
  knapformer_plan_arrays arrays;
  knapformer_plan_report report;
  const knapformer_plan* plan = knapformer_routing_get_plan(c_routing);
  ASSERT_EQ(knapformer_plan_get_arrays(plan, &arrays), 0);
  ASSERT_EQ(knapformer_plan_get_report(plan, &report), 0);
  EXPECT_EQ(arrays.hash, routing->plan().hash());
  EXPECT_EQ(report.max_over_mean, routing->plan().max_over_mean());
  EXPECT_EQ(report.step_seconds, routing->plan().report().step_seconds);
  EXPECT_TRUE(same(arrays.chunks, arrays.chunk_count, routing->plan().all_chunks()));
  EXPECT_TRUE(same(arrays.homes, arrays.sequences, routing->plan().homes()));
  EXPECT_TRUE(same(arrays.lengths, arrays.sequences, routing->plan().lengths()));
  EXPECT_TRUE(same(arrays.chunk_offsets, arrays.sequences + 1, routing->plan().chunk_offsets()));
}

TEST_P(Equality, Layouts) {
  knapformer_layout layout;
  ASSERT_EQ(knapformer_routing_get_layout(c_routing, &layout), 0);
  EXPECT_EQ(layout.home_rows, routing->home_rows());
  EXPECT_EQ(layout.routed_rows, routing->routed_rows());
  EXPECT_EQ(layout.head_rows, routing->head_rows());
  EXPECT_EQ(layout.home_sequences, routing->home_sequences());
  EXPECT_EQ(layout.unsplit_head_rows, routing->unsplit_head_rows());
  EXPECT_EQ(layout.rows_sent, routing->routed_away_rows());
  EXPECT_EQ(layout.rows_returned, routing->routed_back_rows());
  EXPECT_EQ(layout.head_rows_sent, routing->attention_rows_sent());
  EXPECT_EQ(layout.head_rows_returned, routing->attention_rows_returned());
  EXPECT_EQ(layout.sequence_rows_sent, routing->sequence_rows_sent());
  EXPECT_EQ(layout.sequence_rows_returned, routing->sequence_rows_returned());
  EXPECT_TRUE(same(layout.chunks, layout.chunk_count, routing->chunks()));
  EXPECT_TRUE(same(layout.problems, layout.problem_count, routing->attention_problems()));
}

TEST_P(Equality, Movements) {
  const auto tokens = tagged<Matrix>(home_tokens(*routing), 5u);
  const auto moved = routing->route(exec, tokens);
  expect_same(KNAPFORMER_ROUTE, moved, tokens);
  expect_same(KNAPFORMER_REVERSE_ROUTE, routing->reverse_route(exec, moved), moved);

  const auto q =
      tagged<PerHead>(routed_tokens(*routing), std::size_t{kHeads}, std::size_t{kHeadWidth});
  const auto heads = routing->pre_attention(exec, q);
  expect_same(KNAPFORMER_PRE_ATTENTION, heads, q);
  expect_same(KNAPFORMER_POST_ATTENTION, routing->post_attention(exec, heads), heads);

  const auto own = tagged<Matrix>(home_sequences(*routing), 2u);
  const auto copies = routing->route_sequences(exec, own);
  expect_same(KNAPFORMER_ROUTE_SEQUENCES, copies, own);
  expect_same(KNAPFORMER_ROUTE_SEQUENCES_ADJOINT, routing->route_sequences_adjoint(exec, copies),
              copies);
}

INSTANTIATE_TEST_SUITE_P(Topologies, Equality, ::testing::Values("bag", "elastic", "elastic2"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace knapformer::test
