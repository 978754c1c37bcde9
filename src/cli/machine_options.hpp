// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/plan/machine.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace knapformer::cli {

/// What a command line says of the machine. A flag overrides the file, which overrides the
/// defaults.
struct MachineOptions {
  std::string file;  ///< JSON with the names of Machine's fields; "-" for the standard input
  std::optional<std::int64_t> ranks_per_node;
  std::optional<double> flops;
  std::optional<double> bandwidth_within;
  std::optional<double> bandwidth_between;
  std::optional<double> latency;
  std::optional<std::int64_t> layers;
  std::optional<std::int64_t> bytes_per_element;
  std::vector<double> speeds;
};

/// What Machine has, with its defaults.
void add_machine_options(CLI::App& app, MachineOptions& options);

/// For a model that runs, so that its layers and bytes are known and the FLOP/s can be measured:
/// those of the above that describe the ranks and their links.
void add_hardware_options(CLI::App& app, MachineOptions& options, const std::string& flops_default);

/// Throws Error for a file that cannot be read, keys that no Machine has, and numbers out of range.
/// Whether there is a speed for every rank is left to Machine::check().
Machine machine_of(const MachineOptions& options, const Machine& defaults = {});

/// As `--machine` takes it.
nlohmann::ordered_json machine_json(const Machine& machine);

}  // namespace knapformer::cli
