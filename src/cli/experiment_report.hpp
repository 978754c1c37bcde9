// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/train/calibration.hpp>
#include <knapformer/train/paper_workloads.hpp>
#include <knapformer/train/simulator.hpp>
#include <knapformer/train/tuner.hpp>
#include <optional>
#include <string>
#include <vector>

namespace knapformer::cli {

/// One way of placing tokens: on the GPUs of the paper, and on the ranks there are.
struct ExperimentCell {
  Placement full;                      ///< on kPaperRanks
  std::optional<Placement> here = {};  ///< none: the ranks do not divide into such bags
};

/// What a workload did.
struct WorkloadResult {
  const PaperWorkload* workload = nullptr;
  Comparison measured;                   ///< of the cells that there are here, in their order
  TunerResult predicted;                 ///< of all cells
  std::vector<double> loss_differences;  ///< from the first cell, of each cell measured
  double tokens = 0;                     ///< of a step here, mean
  std::int64_t longest = 0;              ///< sequence here, of any measured step
};

/// What the tables and the JSON file say.
struct ExperimentReport {
  std::int64_t ranks = 0;
  std::int64_t threads = 0;  ///< of a rank
  std::string dtype;
  std::uint64_t seed = 0;
  const SimulationOptions& options;
  const Calibration& calibration;
  bool gamma_measured = true;
  bool peak_measured = true;
  double scale = 1;  ///< of lengths
  const std::vector<ExperimentCell>& cells;
  const TunerOptions& full;  ///< what the predictions are for
  double full_gamma = 0;
  double tolerance = 0;  ///< of loss differences
  const std::vector<WorkloadResult>& results;
};

/// The first cells do not balance; a fixed topology of every degree of the paper follows, then
/// elastic bags.
std::vector<ExperimentCell> experiment_cells(std::int64_t ranks);

/// Largest of the differences, not a number if one is none.
double largest_difference(const std::vector<double>& differences);

/// For people: what ran, and a table for each workload.
std::string experiment_table(const ExperimentReport& report);

/// For programs: the same figures.
std::string experiment_json(const ExperimentReport& report);

}  // namespace knapformer::cli
