// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Rows of whole sequences: to the ranks of their bags, and summed at home.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <knapformer/comm/mpi.hpp>
#include <map>

#include "route/route_support.hpp"

namespace knapformer {
namespace {

std::map<int, std::int64_t> bytes_to;  // what MPI was given to send, by rank

}  // namespace
}  // namespace knapformer

// Takes the place of MPI's own.
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  int size = 0;
  MPI_Type_size(type, &size);
  knapformer::bytes_to[peer] += std::int64_t{count} * size;
  return PMPI_Isend(data, count, type, peer, tag, comm, request);
}

namespace knapformer {
namespace {

using namespace test;  // NOLINT: a test file

template <class T>
using Vector = Kokkos::View<T*, Kokkos::LayoutRight, Device>;
template <class T>
using Matrix = Kokkos::View<T**, Kokkos::LayoutRight, Device>;
using Positions = Kokkos::View<std::int32_t* [3], Kokkos::LayoutRight, Device>;

const std::vector<std::uint64_t> kSeeds{40, 41, 42};

TEST(RouteSequences, BringsEveryRowToTheChunksOfItsSequence) {
  for_all_routings(world(), 11, kSeeds, [](const Routing& routing) {
    const Device exec;
    const auto home = home_sequences(routing);
    const auto chunks = chunk_sequences(routing);
    ASSERT_EQ(routing.home_sequences(), std::ssize(home));
    const auto a = tagged<Matrix<double>>(home, 5);
    const Matrix<const double> read_only = a;
    const auto b = tagged<Vector<std::uint8_t>>(home);
    const auto c = tagged<Positions>(home);
    auto pending = routing.start_route_sequences(exec, b, c);
    const auto ra = routing.route_sequences(exec, read_only);
    const auto [rb, rc] = pending.wait();
    EXPECT_EQ(values(ra), values(tagged<Matrix<double>>(chunks, 5)));
    EXPECT_EQ(values(rb), values(tagged<Vector<std::uint8_t>>(chunks)));
    EXPECT_EQ(values(rc), values(tagged<Positions>(chunks)));
  });
}

TEST(RouteSequences, IntegersBesideTwoByteRowsStayExact) {
  for_all_routings(world(), 11, {43}, [](const Routing& routing) {
    const auto awkward_views = [](const std::vector<Token>& tokens) {
      return std::tuple(filled<Matrix<std::uint16_t>>(tokens, awkward<std::uint16_t>, 3),
                        filled<Vector<std::int32_t>>(tokens, awkward<std::int32_t>),
                        filled<Matrix<std::int64_t>>(tokens, awkward<std::int64_t>, 2));
    };
    const auto [a, b, c] = awkward_views(home_sequences(routing));
    const auto [xa, xb, xc] = awkward_views(chunk_sequences(routing));
    const auto [ra, rb, rc] = routing.route_sequences(Device(), a, b, c);
    EXPECT_EQ(values(ra), values(xa));
    EXPECT_EQ(values(rb), values(xb));
    EXPECT_EQ(values(rc), values(xc));
  });
}

/// Numbers whose sum depends on the order, and negative zeros.
template <class T>
T rough(std::int64_t sequence, std::int64_t rank, std::int64_t column) {
  if (column == 0) return T{-0.0F};
  std::mt19937_64 random(static_cast<std::uint64_t>((sequence * 64 + rank) * 4096 + column));
  const auto fraction = static_cast<double>(random() % 1000003) / 1000003;
  return static_cast<T>(std::ldexp(fraction, static_cast<int>(random() % 40)));
}

/// bfloat16 is summed in float and rounded once.
template <class T>
void check_sums(const Routing& routing, std::int64_t width) {
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
  const auto mine = [rank = routing.group().rank()](const Token& token, std::int64_t column) {
    return rough<T>(token.sequence, rank, column);
  };
  const auto rows = filled<Matrix<T>>(chunk_sequences(routing), mine, width);
  const auto sums = values(routing.route_sequences_adjoint(Device(), rows));
  std::size_t i = 0;
  for (const Token& token : home_sequences(routing)) {
    const auto chunks = routing.plan().chunks(token.sequence);
    for (std::int64_t column = 0; column < width; ++column, ++i) {
      Accumulate<T> sum = 0;
      for (std::size_t k = 0; k < chunks.size(); ++k) {
        const Accumulate<T> term = rough<T>(token.sequence, chunks[k].rank, column);
        sum = k == 0 ? term : sum + term;
      }
      ASSERT_EQ(std::bit_cast<Bits>(sums.at(i)), std::bit_cast<Bits>(T(sum)))
          << "sequence " << token.sequence << ", column " << column;
    }
  }
  EXPECT_EQ(i, sums.size());
}

TEST(RouteSequences, AdjointSumsInBagOrder) {
  for_all_routings(world(), 11, kSeeds, [](const Routing& routing) {
    check_sums<float>(routing, 3);
    check_sums<bfloat16>(routing, 5);
    check_sums<double>(routing, 1);
    check_sums<double>(routing, 0);
  });
  const Routing wide(world(), uneven_plan(world().size(), 11, 44));
  check_sums<float>(wide, 2500);
  check_sums<bfloat16>(wide, 2500);
}

TEST(RouteSequences, RowsTravelToTheRanksOfTheirBagsOnly) {
  const Communicator group = world();
  for_all_routings(group, 11, kSeeds, [&](const Routing& routing) {
    const Plan& plan = routing.plan();
    const int me = group.rank();
    std::map<int, std::int64_t> out;  // rows to each rank, and from each
    std::map<int, std::int64_t> in;
    std::int64_t sent = 0, returned = 0;
    for (std::int64_t s = 0; s < plan.sequences(); ++s) {
      const auto home = static_cast<int>(plan.homes()[static_cast<std::size_t>(s)]);
      for (const Chunk& chunk : plan.chunks(s)) {
        if (chunk.rank == home) continue;
        if (home == me) sent += 1, out[static_cast<int>(chunk.rank)] += 1;
        if (chunk.rank == me) returned += 1, in[home] += 1;
      }
    }
    EXPECT_EQ(routing.sequence_rows_sent(), sent);
    EXPECT_EQ(routing.sequence_rows_returned(), returned);

    // The difference between two widths is rows alone, whatever else the exchange sends.
    using Bytes = std::map<int, std::int64_t>;
    const auto traffic = [&](auto move) {
      std::array<Bytes, 2> bytes;
      for (const std::size_t wide : {0u, 1u}) {
        bytes_to.clear();
        move(wide ? 9 : 4);
        bytes[wide] = bytes_to;
      }
      return bytes;
    };
    const auto expect = [&](const std::array<Bytes, 2>& bytes, Bytes& to, const Bytes& from) {
      for (int peer = 0; peer < group.size(); ++peer) {
        const bool silent = !to.contains(peer) && !from.contains(peer);
        EXPECT_EQ(bytes[1].contains(peer), !silent);
        if (silent) continue;
        EXPECT_EQ(bytes[1].at(peer) - bytes[0].at(peer), to[peer] * 5 * 8);
      }
    };
    expect(traffic([&](int width) {
             routing.route_sequences(Device(),
                                     tagged<Matrix<double>>(home_sequences(routing), width));
           }),
           out, in);
    expect(traffic([&](int width) {
             routing.route_sequences_adjoint(
                 Device(), tagged<Matrix<double>>(chunk_sequences(routing), width));
           }),
           in, out);
  });
}

}  // namespace
}  // namespace knapformer
