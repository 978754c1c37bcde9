// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/comm/communicator.hpp>
#include <knapformer/train/model_config.hpp>
#include <knapformer/train/phase_clock.hpp>

namespace knapformer {

/// What this machine makes of the model, measured on all ranks at once and agreed on by them.
struct Calibration {
  /// Floating-point operations per second and rank of a large GEMM: the peak that HFU refers to.
  double gemm_flops = 0;
  /// Weight of attention in the cost model: 1 where attention reaches the rate of the GEMMs, 2
  /// where it is half as fast. From the time of a block on many short sequences and on one long
  /// one.
  double gamma = 0;
};

/// Collective; takes about a second. The median of some repetitions on each rank, the mean over
/// ranks. `longest` is the length of sequence to measure with, at least 256. Rates are in seconds
/// of `clock`. Double, float and bfloat16.
template <class T>
Calibration calibrate(const Communicator& world, const Device& exec, const ModelConfig& config,
                      std::int64_t longest, ClockKind clock = ClockKind::kWall);

}  // namespace knapformer
