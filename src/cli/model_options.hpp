// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/train/model_config.hpp>
#include <string>

namespace CLI {
class App;
}

namespace knapformer::cli {

/// The sizes of a model that a command trains.
struct ModelOptions {
  std::int64_t layers = 2;
  std::int64_t d_model = 256;
  std::int64_t heads = 4;
  std::int64_t d_ffn = 0;  ///< 0: what is usual for the width
  bool checkpoint = true;
  std::string dtype = "float";
  double learning_rate = 0.01;
};

/// Adds --layers, --d-model, --heads, --d-ffn, --dtype, --no-checkpoint and --learning-rate to a
/// group of options. `ffn` says what --d-ffn is, and its default.
void add_model_sizes(CLI::App& group, ModelOptions& options, const std::string& ffn);

/// Adds --gamma, --d-model and --heads of a model that is planned for and does not run.
void add_planned_model(CLI::App& group, std::int64_t& d_model, std::int64_t& heads, double& gamma);

/// Throws Error for a learning rate that is not finite.
void check(const ModelOptions& options);

/// FLUX in other sizes: a third of the layers, rounded up, are double-stream blocks; heads are
/// rotated in its proportions; the MLPs have four times the width. Text tokens are as wide as the
/// model.
MMDiTConfig mmdit_of(const ModelOptions& options);

/// Blocks, width and heads, for people.
std::string describe(const ModelConfig& model);

}  // namespace knapformer::cli
