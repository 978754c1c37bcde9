// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// One rank gives the wrong views: all ranks fail, with the same words when the fault is found on
// that rank, and none hangs.

#include <gtest/gtest.h>

#include "route/route_support.hpp"

namespace knapformer {
namespace {

using namespace test;  // NOLINT: a test file

using Matrix = Kokkos::View<double**, Kokkos::LayoutRight, Device>;
using PerHead = Kokkos::View<float***, Kokkos::LayoutRight, Device>;

class Misuse : public ::testing::Test {
 protected:
  void SetUp() override {
    int size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    last = size - 1;
  }

  /// The message of all ranks when the last one does `bad` and the rest `other`.
  std::string message_of(const std::function<void(const Routing&)>& bad,
                         const std::function<void(const Routing&)>& other) {
    const Communicator group = world();
    const Balancer balance = balancer(group, join("g", group.size(), "n1"), 8);
    const Routing routing = balance.prepare(std::vector<std::int64_t>{20, 30});
    MPI_Barrier(MPI_COMM_WORLD);
    const auto message = error_of([&] {
      (group.rank() == last ? bad : other)(routing);
      group.barrier();
    });
    return message;
  }
  std::string on_last(const std::string& text) const { return join("rank ", last, ": ", text); }

  static Matrix rows(std::int64_t count, std::size_t width = 4) {
    return Matrix("rows", static_cast<std::size_t>(count), width);
  }
  static PerHead per_head(std::int64_t count, std::size_t heads) {
    return PerHead("rows", static_cast<std::size_t>(count), heads, 4);
  }

  const Device exec;
  const std::function<void(const Routing&)> good = [this](const Routing& r) {
    r.route(exec, rows(r.home_rows()), rows(r.home_rows()));
  };
  const std::function<void(const Routing&)> good_attention = [this](const Routing& r) {
    r.pre_attention(exec, per_head(r.routed_rows(), 8));
  };
  /// All ranks refuse the bytes, and blame the last one where it is outvoted.
  void expect_refusal(const std::string& message) const {
    EXPECT_TRUE(contains(message, "another plan or operation are refused")) << message;
    if (last > 1) {
      EXPECT_TRUE(contains(message, join("rank ", last, " is out of step"))) << message;
    }
    EXPECT_TRUE(same_everywhere(message));
  }

  int last = 0;
};

TEST_F(Misuse, WrongFirstExtent) {
  const auto message = message_of(
      [&](const Routing& r) { r.route(exec, rows(r.home_rows()), rows(r.home_rows() + 3)); }, good);
  EXPECT_EQ(
      message,
      on_last("route: input 1 has 53 rows; its first extent must be 50, this rank's home rows"));
}

TEST_F(Misuse, WrongFirstExtentOfTheWayBackAndOfHeads) {
  EXPECT_TRUE(contains(
      message_of([&](const Routing& r) { r.reverse_route(exec, rows(r.routed_rows() + 1)); },
                 [&](const Routing& r) { r.reverse_route(exec, rows(r.routed_rows())); }),
      on_last("reverse_route: input 0 has")));
  EXPECT_TRUE(contains(
      message_of([&](const Routing& r) { r.post_attention(exec, rows(r.head_rows() - 1)); },
                 [&](const Routing& r) { r.post_attention(exec, rows(r.head_rows())); }),
      on_last("post_attention: input 0 has")));
}

/// Views without memory, of more bytes than there can be: they are never looked at. Kokkos 4.5
/// keeps extents in 32 bits where three are dynamic; there the elements are large instead.
TEST_F(Misuse, TooLittleMemoryOnOneRank) {
  if (last == 0) return;
  using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
  using NoRows = Kokkos::View<double**, Kokkos::LayoutRight, Device, Unmanaged>;
  struct Large {
    std::array<std::byte, 1 << 17> bytes;
  };
  using NoHeads = Kokkos::View<Large***, Kokkos::LayoutRight, Device, Unmanaged>;
  using NoBlocks = Kokkos::View<Large**, Kokkos::LayoutRight, Device, Unmanaged>;
  constexpr std::int64_t kMuch = std::int64_t{1} << 46;
  constexpr std::int64_t kManyLarge = std::int64_t{1} << 31;
  auto* elsewhere = reinterpret_cast<Large*>(std::uintptr_t{1} << 60);
  const auto for_outputs = message_of(
      [&](const Routing& r) { r.route(exec, NoRows(nullptr, r.home_rows(), kMuch)); }, good);
  const auto for_scratch = message_of(
      [&](const Routing& r) {
        r.pre_attention_into(exec, std::tuple(NoBlocks(elsewhere, r.head_rows(), kManyLarge)),
                             NoHeads(nullptr, r.routed_rows(), 8, kManyLarge));
      },
      good_attention);
  for (const std::string& message : {for_outputs, for_scratch}) {
    EXPECT_TRUE(contains(message, on_last(""))) << message;
    EXPECT_TRUE(contains(message, "memory")) << message;
    EXPECT_TRUE(same_everywhere(message));
  }
}

TEST_F(Misuse, WrongNumberOfSequencesOrChunks) {
  EXPECT_EQ(message_of([&](const Routing& r) { r.route_sequences(exec, rows(3)); },
                       [&](const Routing& r) { r.route_sequences(exec, rows(2)); }),
            on_last("route_sequences: input 0 has 3 rows; its first extent must be 2, this rank's "
                    "home sequences"));
  const auto chunks = [](const Routing& r) { return std::ssize(r.chunks()); };
  EXPECT_TRUE(contains(
      message_of([&](const Routing& r) { r.route_sequences_adjoint(exec, rows(chunks(r) + 1)); },
                 [&](const Routing& r) { r.route_sequences_adjoint(exec, rows(chunks(r))); }),
      on_last("route_sequences_adjoint: input 0 has")));
}

TEST_F(Misuse, SumsWithoutATypeOrOfPartsOfNumbers) {
  const auto message = [&](const std::function<void(ConstRows&, Rows&)>& change) {
    const auto sum = [&](const Routing& r, bool bad) {
      const Matrix in = rows(std::ssize(r.chunks())), out = rows(r.home_sequences());
      ConstRows from = rows_of(in);
      Rows to = rows_of(out);
      if (bad) change(from, to);
      r.start(exec, Movement::kRouteSequencesAdjoint, std::span(&from, 1), std::span(&to, 1))
          .wait();
    };
    return message_of([&](const Routing& r) { sum(r, true); },
                      [&](const Routing& r) { sum(r, false); });
  };
  EXPECT_EQ(message([](ConstRows& from, Rows& to) { from.element = to.element = Element::kOther; }),
            on_last("route_sequences_adjoint: input 0 is neither float, double nor bfloat16"));
  EXPECT_EQ(message([](ConstRows& from, Rows&) { from.element = Element::kFloat; }),
            on_last("route_sequences_adjoint: output 0 and input 0 have elements of different "
                    "types"));
  EXPECT_TRUE(
      contains(message([](ConstRows& from, Rows& to) { from.item_bytes = to.item_bytes = 20; }),
               on_last("route_sequences_adjoint: input 0 has rows of 20 bytes")));
}

TEST_F(Misuse, WrongHeads) {
  EXPECT_EQ(
      message_of([&](const Routing& r) { r.pre_attention(exec, per_head(r.routed_rows(), 9)); },
                 good_attention),
      on_last("pre_attention: input 0 has 9 heads, the plan has 8"));
}

TEST_F(Misuse, NotContiguous) {
  const auto message = message_of(
      [&](const Routing& r) {
        const Kokkos::View<double**, Kokkos::LayoutRight, Device> wide = rows(r.home_rows(), 8);
        const Kokkos::View<double**, Kokkos::LayoutRight, Device> narrow =
            Kokkos::subview(wide, Kokkos::ALL, std::pair<std::size_t, std::size_t>(0, 4));
        r.route(exec, narrow, narrow);
      },
      good);
  EXPECT_TRUE(contains(message, on_last("route: input 0 is not contiguous"))) << message;
}

TEST_F(Misuse, WrongOutputs) {
  EXPECT_TRUE(contains(message_of(
                           [&](const Routing& r) {
                             r.route_into(
                                 exec, std::tuple(rows(r.routed_rows()), rows(r.routed_rows(), 3)),
                                 rows(r.home_rows()), rows(r.home_rows()));
                           },
                           good),
                       on_last("route: output 1 has rows of 24 bytes, input 1 of 32")));
  EXPECT_TRUE(contains(message_of(
                           [&](const Routing& r) {
                             const Matrix in = rows(r.home_rows() + r.routed_rows());
                             const Matrix input =
                                 Kokkos::subview(in, std::pair(0L, r.home_rows()), Kokkos::ALL);
                             const Matrix output = Kokkos::subview(
                                 in, std::pair(10L, 10L + r.routed_rows()), Kokkos::ALL);
                             r.route_into(exec, std::tie(output), input);
                           },
                           good),
                       on_last("route: output 0 overlaps input 0")));
}

TEST_F(Misuse, AnotherWidthIsRefused) {
  if (world().size() == 1) return;
  const auto message = message_of(
      [&](const Routing& r) { r.route(exec, rows(r.home_rows(), 3), rows(r.home_rows(), 5)); },
      good);
  expect_refusal(message);
}

TEST_F(Misuse, AnotherTypeOfTheSameSizeIsRefused) {
  if (world().size() == 1) return;
  using Floats = Kokkos::View<float**, Kokkos::LayoutRight, Device>;
  const auto message = message_of(
      [&](const Routing& r) {
        r.route(exec, Floats("rows", static_cast<std::size_t>(r.home_rows()), 8),
                rows(r.home_rows()));
      },
      good);
  expect_refusal(message);
}

TEST_F(Misuse, AnotherPlanIsRefused) {
  const Communicator group = world();
  if (group.size() == 1) return;
  const Balancer balance = balancer(group, join("g", group.size(), "n1"), 8);
  const std::vector<std::int64_t> first{20, 30};
  const std::vector<std::int64_t> second{30, 20};
  const Routing a = balance.prepare(first);
  const Routing b = balance.prepare(second);
  MPI_Barrier(MPI_COMM_WORLD);
  const Routing& mine = group.rank() == 0 ? a : b;
  const auto message = error_of([&] {
    mine.route(exec, rows(mine.home_rows()));
    group.barrier();
  });
  EXPECT_TRUE(contains(message, "between ranks 0 and")) << message;
}

}  // namespace
}  // namespace knapformer
