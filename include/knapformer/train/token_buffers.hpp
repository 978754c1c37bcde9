// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/model/arena.hpp>
#include <knapformer/route/routing.hpp>
#include <knapformer/train/loss_mean.hpp>
#include <span>

namespace knapformer {

/// What the squared error of each row counts in a loss. Used again and again, it soon allocates
/// nothing.
class LossScales {
 public:
  /// Of packed sequences of these lengths, in rows of `columns`: [sum of lengths]. What was there
  /// before is lost, so `exec` must be done with it.
  Vector<double> reset(const Device& exec, std::span<const std::int64_t> lengths,
                       std::int64_t columns, LossMean mean);

  /// Held, on the device and on the host.
  std::int64_t bytes() const {
    return static_cast<std::int64_t>((device_.span() + host_.span()) * sizeof(double));
  }

 private:
  Vector<double> device_;
  Kokkos::View<double*, Kokkos::SharedHostPinnedSpace> host_;
};

/// The rows that a micro-batch moves between home and model, and the scales of its loss. Used
/// again and again, it soon allocates nothing. Double, float and bfloat16.
template <class T>
struct TokenBuffers {
  /// What was there before is lost, so `exec` must be done with it. `lengths` are those of the home
  /// sequences.
  void reset(const Device& exec, const Routing& routing, std::span<const std::int64_t> lengths,
             std::int64_t d_model, LossMean mean);

  std::int64_t bytes() const;  ///< of device memory held

  /// @{
  /// [routed_rows x d_model]
  Matrix<T> x, d_y;
  /// @}
  Positions positions;  ///< [routed_rows x 3]
  /// @{
  /// [home_rows x d_model]
  Matrix<T> output, d_output;
  /// @}
  Vector<double> scales;  ///< [home_rows]: of the squared error of each token

 private:
  Arena<T> rows_;
  Positions all_positions_;
  LossScales all_scales_;
};

}  // namespace knapformer
