// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Balances work that is no transformer at all: particles that need from a few to thousands of
// steps.
//     mpirun -n 4 ./particles

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <cstdio>
#include <knapformer/knapformer.hpp>
#include <random>
#include <vector>

namespace kf = knapformer;

struct Particle {
  double position = 1, velocity = 0, stiffness = 1;
  std::int64_t steps = 1;  // what integrating it costs
};
using Particles = Kokkos::View<Particle*, kf::Device>;

// Each particle is an oscillator: the stiffer, the more steps. Later ranks have the stiffer ones.
Particles load(int rank, int count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank));
  const Particles particles("particles", static_cast<std::size_t>(count));
  const auto host = Kokkos::create_mirror_view(particles);
  for (int i = 0; i < count; ++i) {
    const double share = static_cast<double>(random() % 1000) / 1000;  // few are very stiff
    host(i) = Particle{};
    host(i).stiffness = (1 + rank) / (1.001 - share);
    host(i).steps = static_cast<std::int64_t>(10 * host(i).stiffness);
  }
  Kokkos::deep_copy(particles, host);
  return particles;
}

// Takes as long as the rank has steps.
void integrate(const kf::Device& exec, const Particles& particles) {
  Kokkos::parallel_for(
      "integrate", Kokkos::RangePolicy<kf::Device>(exec, 0, particles.extent(0)),
      KOKKOS_LAMBDA(const std::size_t i) {
        Particle p = particles(i);
        const double dt = 1.0 / static_cast<double>(p.steps);
        for (std::int64_t step = 0; step < p.steps; ++step) {
          p.velocity -= dt * p.stiffness * p.position;
          p.position += dt * p.velocity;
        }
        particles(i) = p;
      });
}

// Whether both hold the same bits.
bool same(const Particles& a, const Particles& b) {
  const auto x = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a);
  const auto y = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), b);
  bool equal = x.extent(0) == y.extent(0);
  for (std::size_t i = 0; equal && i < x.extent(0); ++i) {
    equal = x(i).position == y(i).position && x(i).velocity == y(i).velocity;
  }
  return equal;
}

bool run() {
  const kf::Device exec;
  const kf::Communicator group(MPI_COMM_WORLD);
  const kf::Balancer balancer(group, {.topology = kf::Topology::singles(group.size())});

  const Particles particles = load(group.rank(), 1000);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), particles);
  const std::vector<std::int64_t> lengths(host.extent(0), 1);  // each is one row
  std::vector<std::int64_t> costs;
  for (std::size_t i = 0; i < host.extent(0); ++i) costs.push_back(host(i).steps);

  const kf::Routing routing = balancer.prepare(lengths, costs);
  const Particles moved = routing.route(exec, particles);
  integrate(exec, moved);
  const Particles balanced = routing.reverse_route(exec, moved);

  integrate(exec, particles);  // the same without balancing
  exec.fence();
  const kf::PlanReport& report = routing.plan().report();
  const auto me = static_cast<std::size_t>(group.rank());
  std::printf("rank %d: %.0f steps before, %.0f after; largest over mean %.3f before, %.3f after\n",
              group.rank(), report.work_before[me], report.work_after[me],
              report.max_over_mean_before, report.max_over_mean);
  return same(balanced, particles);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const bool correct = [&] {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    return run();
  }();
  std::printf("%s\n", correct ? "the same answer" : "ANOTHER ANSWER");
  MPI_Finalize();
  return correct ? 0 : 1;
}
