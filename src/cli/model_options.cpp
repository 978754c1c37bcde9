// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/model_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <knapformer/plan/error.hpp>
#include <knapformer/plan/plan.hpp>

#include "cli/quantities.hpp"
#include "plan/message.hpp"

namespace knapformer::cli {
namespace {

std::string describe_model(const TransformerConfig& model) {
  std::string heads = plural(model.heads, "head");
  if (model.queries_per_key() > 1) heads += fmt::format(" ({} of keys)", model.plan_heads());
  return fmt::format("{}, d {}, {}", plural(model.layers, "layer"), model.d_model, heads);
}

std::string describe_model(const MMDiTConfig& model) {
  return fmt::format("MMDiT, {} double-stream and {} single-stream blocks, d {}, {}",
                     model.double_blocks, model.single_blocks, model.d_model,
                     plural(model.heads, "head"));
}

void add_width(CLI::App& group, std::int64_t& d_model, const std::string& what) {
  group.add_option("--d-model", d_model, what)
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
}

void add_heads(CLI::App& group, std::int64_t& heads, const std::string& what) {
  group.add_option("--heads", heads, what)
      ->check(CLI::Range(std::int64_t{1}, Plan::kMaxHeads))
      ->capture_default_str();
}

}  // namespace

void add_planned_model(CLI::App& group, std::int64_t& d_model, std::int64_t& heads, double& gamma) {
  group.add_option("--gamma", gamma, "weight of attention in 6 d L + gamma L^2")
      ->capture_default_str();
  add_width(group, d_model, "width d of the model");
  add_heads(group, heads,
            "attention heads of the model, those of keys where queries share them; they need not "
            "divide the width");
}

void add_model_sizes(CLI::App& group, ModelOptions& options, const std::string& ffn) {
  group.add_option("--layers", options.layers, "blocks")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  add_width(group, options.d_model, "width");
  add_heads(group, options.heads, "attention heads");
  group.add_option("--d-ffn", options.d_ffn, ffn)
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  group
      .add_option(
          "--dtype", options.dtype,
          "of tokens, activations and parameters; with bfloat16, parameters and sums are float")
      ->check(CLI::IsMember({"float", "double", "bfloat16"}))
      ->capture_default_str();
  group.add_flag_callback(
      "--no-checkpoint", [&options] { options.checkpoint = false; },
      "keep all activations instead of recomputing blocks");
  group.add_option("--learning-rate", options.learning_rate, "of gradient descent")
      ->capture_default_str();
}

void check(const ModelOptions& options) {
  if (std::isfinite(options.learning_rate)) return;
  throw Error(fmt::format("--learning-rate is {}; give a finite number", options.learning_rate));
}

MMDiTConfig mmdit_of(const ModelOptions& options) {
  MMDiTConfig model;
  model.double_blocks = options.layers / 3 + (options.layers % 3 > 0 ? 1 : 0);
  model.single_blocks = options.layers - model.double_blocks;
  model.d_model = options.d_model;
  model.heads = options.heads;
  model.d_mlp = options.d_ffn > 0 ? options.d_ffn : 4 * options.d_model;
  model.d_text = options.d_model;
  model.checkpoint = options.checkpoint;
  const std::int64_t d_head = options.heads > 0 ? options.d_model / options.heads : 0;
  const std::int64_t frames = d_head / 16 * 2, rows = (d_head - frames) / 4 * 2;
  model.rope_axes = {frames, rows, d_head - frames - rows};
  return model;
}

std::string describe(const ModelConfig& model) {
  return std::visit([](const auto& of) { return describe_model(of); }, model);
}

}  // namespace knapformer::cli
