// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// routed_rows TOPOLOGY HEADS LENGTHS...: LENGTHS has the sequences of every rank in turn, as in
// "5,0,3" or "-". Every rank routes rows (sequence, token) and prints those it then has, one line a
// row after its own number. Under MPI.

#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cstdio>
#include <knapformer/route/balancer.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace knapformer;

std::vector<std::int64_t> parse(const std::string& list) {
  std::vector<std::int64_t> lengths;
  if (list == "-") return lengths;
  std::istringstream in(list);
  for (std::string number; std::getline(in, number, ',');) lengths.push_back(std::stoll(number));
  return lengths;
}

void run(char** argv) {
  const Communicator group(MPI_COMM_WORLD);
  const Balancer balancer(group, {.topology = Topology::parse(argv[1]),
                                  .cost = CostModel::transformer(3072, 0.5),
                                  .heads = std::stoll(argv[2])});
  std::int64_t sequence = 0;
  for (int rank = 0; rank < group.rank(); ++rank) {
    sequence += static_cast<std::int64_t>(parse(argv[3 + rank]).size());
  }
  const std::vector<std::int64_t> lengths = parse(argv[3 + group.rank()]);
  std::vector<std::int64_t> rows;
  for (const std::int64_t length : lengths) {
    for (std::int64_t token = 0; token < length; ++token)
      rows.insert(rows.end(), {sequence, token});
    ++sequence;
  }
  const Kokkos::View<std::int64_t* [2], Kokkos::LayoutRight, Kokkos::DefaultExecutionSpace> home(
      "rows", rows.size() / 2);
  Kokkos::deep_copy(home,
                    Kokkos::View<const std::int64_t* [2], Kokkos::LayoutRight, Kokkos::HostSpace>(
                        rows.data(), rows.size() / 2));
  const auto routed = balancer.prepare(lengths).route(Kokkos::DefaultExecutionSpace(), home);
  const auto found = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), routed);
  std::string text;
  for (std::size_t i = 0; i < found.extent(0); ++i) {
    text += std::to_string(group.rank()) + " " + std::to_string(found(i, 0)) + " " +
            std::to_string(found(i, 1)) + "\n";
  }
  std::fputs(text.c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3 + ranks) MPI_Abort(MPI_COMM_WORLD, 2);
    run(argv);
  }
  MPI_Finalize();
}
