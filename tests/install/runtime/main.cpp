// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <cstdio>
#include <knapformer/route/balancer.hpp>
#include <vector>

namespace kf = knapformer;

// Routes rows and brings them back; true when they are what they were.
bool round_trip(const kf::Communicator& group) {
  const kf::Balancer balancer(group, {.topology = kf::Topology::singles(group.size())});
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(2 * group.rank()), 5);
  const kf::Routing routing = balancer.prepare(lengths);

  const kf::Device exec;
  const Kokkos::View<int**, Kokkos::LayoutRight, kf::Device> rows("rows", routing.home_rows(), 3);
  Kokkos::deep_copy(exec, rows, group.rank() + 1);
  const auto restored = routing.reverse_route(exec, routing.route(exec, rows));
  exec.fence();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), restored);
  bool same = host.extent(0) == rows.extent(0);
  for (std::size_t i = 0; same && i < host.extent(0); ++i) same = host(i, 0) == group.rank() + 1;
  return same;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int same = 0;
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    const kf::Communicator group(MPI_COMM_WORLD);
    same = round_trip(group) ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (group.rank() == 0) std::printf("rows restored: %s\n", same == 1 ? "yes" : "no");
  }
  MPI_Finalize();
  return same == 1 ? 0 : 1;
}
