// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <functional>
#include <knapformer/comm/bfloat16.hpp>
#include <knapformer/comm/communicator.hpp>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace knapformer::cli {

/// How the ranks of a command talk to each other, and how fast they are taken to be.
struct RunOptions {
  std::string transport = "auto";
  double report_after = CommunicatorOptions{}.report_seconds;
  double timeout = CommunicatorOptions{}.timeout_seconds;
  std::optional<double> peak_gflops;  ///< of a rank; none: measured
};

/// Adds --peak-gflops, --transport, --timeout and --report-after to a group of options.
void add_run_options(CLI::App& group, RunOptions& options);

/// Throws Error for numbers out of range.
void check(const RunOptions& options);

/// Tells on stderr that one rank alone has nothing to balance. `command` is what to start on more.
void note_lone_rank(const Communicator& world, const std::string& command);

/// Work that can fail on one rank alone: then every rank throws.
void settle(const Communicator& world, const std::function<void()>& work);

namespace detail {
void on_world(const RunOptions& options, const std::function<void(const Communicator&)>& body);
}

/// Starts Kokkos, and calls body(world, T()) on every rank of MPI_COMM_WORLD, where T is the type
/// that `dtype` names. What fails on one rank fails on all.
template <class Body>
void on_world(const RunOptions& options, const std::string& dtype, const Body& body) {
  detail::on_world(options, [&](const Communicator& world) {
    if (dtype == "double") {
      body(world, double());
    } else if (dtype == "bfloat16") {
      body(world, bfloat16());
    } else {
      body(world, float());
    }
  });
}

}  // namespace knapformer::cli
