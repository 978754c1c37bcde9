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

// Stands for the work on tokens, wherever they are.
void compute(const kf::Device& exec,
             const Kokkos::View<float**, Kokkos::LayoutRight, kf::Device>& x) {
  Kokkos::parallel_for(
      "compute", Kokkos::RangePolicy<kf::Device>(exec, 0, x.extent(0)), KOKKOS_LAMBDA(const int i) {
        for (std::size_t j = 0; j < x.extent(1); ++j) x(i, j) *= 2;
      });
}

void run() {
  const kf::Device exec;
  const kf::Communicator group(MPI_COMM_WORLD);
  const kf::Balancer balancer(group,
                              {.topology = kf::Topology::singles(group.size()),
                               .cost = kf::CostModel::transformer(/*d_model=*/64, /*gamma=*/1.0),
                               .heads = 8});

  // Every rank loads four sequences; those of later ranks are longer.
  const std::vector<std::int64_t> lengths(4, 100 * (group.rank() + 1));
  const kf::Routing routing = balancer.prepare(lengths);

  Kokkos::View<float**, Kokkos::LayoutRight, kf::Device> tokens("tokens", routing.home_rows(), 64);
  Kokkos::deep_copy(exec, tokens, static_cast<float>(group.rank()));

  const auto moved = routing.route(exec, tokens);
  compute(exec, moved);
  const auto restored = routing.reverse_route(exec, moved);  // every token is home again

  std::printf(
      "rank %d: %ld tokens loaded, %ld computed; largest over mean work %.3f, before %.3f\n",
      group.rank(), long(routing.home_rows()), long(routing.routed_rows()),
      routing.plan().max_over_mean(), routing.plan().report().max_over_mean_before);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    run();
  }
  MPI_Finalize();
}
