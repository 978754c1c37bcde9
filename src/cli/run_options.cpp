// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/run_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>
#include <cmath>
#include <knapformer/plan/error.hpp>
#include <string_view>

namespace knapformer::cli {
namespace {

TransportKind transport_of(std::string_view name) {
  if (name == "mpi") return TransportKind::kMpi;
  return name == "nccl" ? TransportKind::kNccl : TransportKind::kAuto;
}

}  // namespace

void add_run_options(CLI::App& group, RunOptions& options) {
  group.add_option("--peak-gflops", options.peak_gflops,
                   "peak of a rank, for HFU (default: a large GEMM, measured)");
  group
      .add_option("--transport", options.transport,
                  "what moves tokens between ranks; auto is nccl where that is built in and each "
                  "rank has a GPU of its own, and mpi elsewhere")
      ->check(CLI::IsMember({"auto", "mpi", "nccl"}))
      ->capture_default_str();
  group
      .add_option("--timeout", options.timeout,
                  "seconds without a message from the others after which a rank gives up")
      ->capture_default_str();
  group
      .add_option("--report-after", options.report_after,
                  "seconds without a message after which the ranks at fault are reported")
      ->capture_default_str();
}

void check(const RunOptions& options) {
  if (options.peak_gflops && !(std::isfinite(*options.peak_gflops) && *options.peak_gflops > 0)) {
    throw Error(
        fmt::format("--peak-gflops is {}; give a finite number above 0", *options.peak_gflops));
  }
  const auto require_seconds = [](const char* name, double seconds) {
    if (std::isfinite(seconds) && seconds > 0) return;
    throw Error(fmt::format("{} is {}; give a finite number of seconds above 0", name, seconds));
  };
  require_seconds("--timeout", options.timeout);
  require_seconds("--report-after", options.report_after);
}

void note_lone_rank(const Communicator& world, const std::string& command) {
  if (world.size() > 1) return;
  fmt::print(stderr,
             "knapformer: one rank has nothing to balance; start several, such as mpirun -n 4 "
             "knapformer {} ...\n",
             command);
}

void settle(const Communicator& world, const std::function<void()>& work) {
  std::string complaint;
  try {
    work();
  } catch (const Error& error) {
    complaint = error.what();
  }
  world.agree(complaint);
}

void detail::on_world(const RunOptions& options,
                      const std::function<void(const Communicator&)>& body) {
  // Kokkos would warn of ranks that share cores; the table says so where it matters.
  const Kokkos::ScopeGuard kokkos(Kokkos::InitializationSettings().set_disable_warnings(true));
  const Communicator world(MPI_COMM_WORLD, {.transport = transport_of(options.transport),
                                            .report_seconds = options.report_after,
                                            .timeout_seconds = options.timeout,
                                            .log = [](std::string_view text) {
                                              fmt::print(stderr, "knapformer: {}\n", text);
                                            }});
  world.guard([&] { body(world); });
}

}  // namespace knapformer::cli
