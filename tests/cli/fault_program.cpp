// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// usage: fault_program FAULT RANK GROUP_SIZE TIMEOUT
//
// Moves tokens in groups, step after step, until one rank does what it should not: for
// test_failures.py.

#include <unistd.h>

#include <Kokkos_Core.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <knapformer/route/balancer.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cli/launch.hpp"

namespace {

using namespace knapformer;  // NOLINT: a test program

struct Fault {
  std::string name;
  int rank = 0;
  int group_size = 1;
  double timeout = 1;
};

constexpr int kFaultyStep = 2;

/// In the middle of a step.
void strike(const Fault& fault) {
  if (fault.name == "kill") std::raise(SIGKILL);
  if (fault.name == "exit") std::_Exit(0);
  if (fault.name == "throw") throw std::runtime_error("the loader has no data");
  if (fault.name == "memory") throw std::bad_alloc();
  if (fault.name == "sleep") {
    std::this_thread::sleep_for(std::chrono::duration<double>(fault.timeout + 4));
  }
  if (fault.name == "stop") {
    std::printf("%ld stops\n", static_cast<long>(::getpid()));
    std::fflush(stdout);
    std::raise(SIGSTOP);
  }
}

template <class T>
void route(const Routing& routing, std::size_t width) {
  const Kokkos::View<T**, Kokkos::LayoutRight, Device> tokens(
      "tokens", static_cast<std::size_t>(routing.home_rows()), width);
  const Device exec;
  routing.reverse_route(exec, routing.route(exec, tokens));
}

void run(const Communicator& world, const Fault& fault) {
  const bool culprit = world.rank() == fault.rank;
  const auto faulty = [&](const char* name) { return culprit && fault.name == name; };
  const Communicator group = world.split(fault.group_size);
  const std::string bags = "g1n" + std::to_string(group.size());
  const Topology topology = faulty("topology") ? Topology::elastic() : Topology::parse(bags);
  const Balancer balancer(group, {.topology = topology,
                                  .heads = faulty("heads") ? 8 : 4,
                                  .machine = {.flops = 1e6}});  // everything is worth moving
  for (int step = 0; step < 2 * kFaultyStep; ++step) {
    const bool now = step == kFaultyStep;
    // The culprit has much to send.
    std::vector<std::int64_t> lengths{40, 50};
    if (culprit) lengths = {40, 50, 60, 70, 80, 90, 100};
    const Routing other = balancer.prepare(std::vector(lengths.rbegin(), lengths.rend()));
    if (now && faulty("lengths")) lengths[1] = -5;
    const Routing routing = balancer.prepare(lengths);
    world.barrier();
    if (now && culprit) strike(fault);
    const std::size_t width = now && faulty("width") ? 40'000 : 50'000;
    if (now && faulty("dtype")) {
      route<std::int32_t>(routing, width);
    } else {
      route<float>(now && faulty("plan") ? other : routing, width);
    }
    group.barrier();
    if (!(now && faulty("forget"))) world.barrier();
    world.all_gather(std::span<const int>(&step, 1));
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::Launch launch({.alone = std::chrono::seconds(10), .alike = std::chrono::milliseconds(300)});
  return launch.run([&] {
    if (argc != 5) throw Error("usage: fault_program FAULT RANK GROUP_SIZE TIMEOUT");
    const Fault fault{argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atof(argv[4])};
    launch.initialize_mpi();
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (fault.name == "kill-early" && rank == fault.rank) std::raise(SIGKILL);
    const Kokkos::ScopeGuard kokkos(Kokkos::InitializationSettings().set_disable_warnings(true));
    CommunicatorOptions options;
    options.timeout_seconds = fault.timeout;
    const Communicator world(MPI_COMM_WORLD, options);
    world.guard([&] { run(world, fault); });
  });
}
