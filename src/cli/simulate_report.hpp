// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/train/calibration.hpp>
#include <knapformer/train/simulator.hpp>
#include <nlohmann/json.hpp>
#include <string>

namespace knapformer::cli {

/// What the table and the JSON file say about a simulation.
struct SimulationReport {
  const TraceHeader& run;
  const SimulationOptions& options;
  const Calibration& calibration;
  bool gamma_measured = false;
  bool peak_measured = false;
  const Simulation& simulation;
};

/// For people: what was run, a column without and one with balancing, and what came of it.
std::string format_table(const SimulationReport& report);

/// For programs: the same figures, and every step.
nlohmann::ordered_json to_json(const SimulationReport& report);

}  // namespace knapformer::cli
