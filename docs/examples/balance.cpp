// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Balances the tokens of one step over the ranks that it is started on:
//     mpirun -n 4 ./balance

#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <cstdio>
#include <knapformer/knapformer.hpp>
#include <vector>

namespace kf = knapformer;

using Rows = Kokkos::View<float**, Kokkos::LayoutRight, kf::Device>;

// Stands for the work on tokens, wherever they are: scales those of each chunk by the row of its
// sequence.
void compute(const kf::Device& exec, const kf::Routing& routing, const Rows& x,
             const Rows& scales) {
  using Policy = Kokkos::RangePolicy<kf::Device, Kokkos::IndexType<std::int64_t>>;
  std::int64_t i = 0;
  for (const kf::LocalChunk& chunk : routing.chunks()) {
    Kokkos::parallel_for(
        "compute", Policy(exec, chunk.first_row, chunk.first_row + chunk.chunk.tokens),
        KOKKOS_LAMBDA(const std::int64_t row) {
          for (std::size_t j = 0; j < x.extent(1); ++j) x(row, j) *= scales(i, j);
        });
    ++i;
  }
}

void balance(const kf::Communicator& group) {
  const kf::Device exec;
  const kf::Balancer balancer(group,
                              {.topology = kf::Topology::singles(group.size()),
                               .cost = kf::CostModel::transformer(/*d_model=*/64, /*gamma=*/1.0),
                               .heads = 8});

  // Every rank loads four sequences; those of later ranks are longer.
  const std::vector<std::int64_t> lengths(4, 100 * (group.rank() + 1));
  const kf::Routing routing = balancer.prepare(lengths);  // how many tokens each of them has

  const Rows tokens("tokens", routing.home_rows(), 64);
  const Rows conditioning("conditioning", routing.home_sequences(), 64);  // a row a sequence
  Kokkos::deep_copy(exec, tokens, static_cast<float>(group.rank()));
  Kokkos::deep_copy(exec, conditioning, 2.0f);

  const auto moved = routing.route(exec, tokens);  // any number of views, one exchange
  const auto scales = routing.route_sequences(exec, conditioning);  // a row a chunk
  compute(exec, routing, moved, scales);
  const auto restored = routing.reverse_route(exec, moved);  // every token is home again

  std::printf(
      "rank %d: %ld tokens loaded, %ld computed; largest over mean work %.3f, before %.3f\n",
      group.rank(), long(routing.home_rows()), long(routing.routed_rows()),
      routing.plan().max_over_mean(), routing.plan().report().max_over_mean_before);
}

void run() {
  const kf::Communicator world(MPI_COMM_WORLD);
  try {
    world.guard([&] { balance(world); });  // the other ranks hear of any exception
  } catch (const kf::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    run();
  }
  MPI_Finalize();
}
