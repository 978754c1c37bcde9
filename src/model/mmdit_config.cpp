// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <initializer_list>
#include <knapformer/model/mmdit_config.hpp>
#include <knapformer/plan/error.hpp>
#include <string>
#include <utility>

namespace knapformer {

MMDiTConfig mmdit_preset(std::string_view name) {
  struct Preset {
    std::string_view name;
    std::int64_t double_blocks, single_blocks, d_model, heads;
    std::array<std::int64_t, 3> rope_axes;
  };
  static constexpr Preset kPresets[] = {
      {"tiny", 2, 4, 192, 3, {16, 24, 24}},     {"small", 4, 8, 384, 6, {16, 24, 24}},
      {"base", 6, 12, 768, 12, {16, 24, 24}},   {"large", 12, 24, 1536, 12, {16, 56, 56}},
      {"flux", 19, 38, 3072, 24, {16, 56, 56}},
  };
  std::string known;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) {
      MMDiTConfig config;
      config.double_blocks = preset.double_blocks;
      config.single_blocks = preset.single_blocks;
      config.d_model = preset.d_model;
      config.heads = preset.heads;
      config.d_mlp = 4 * preset.d_model;
      config.rope_axes = preset.rope_axes;
      return config;
    }
    known += (known.empty() ? "" : ", ") + std::string(preset.name);
  }
  throw Error(fmt::format("mmdit: there is no preset \"{}\"; there are {}", name, known));
}

void check(const MMDiTConfig& config) {
  constexpr std::int64_t kLargest = std::int64_t{1}
                                    << 24;  // keeps every product far inside 64 bits
  const auto require = [&](const char* name, std::int64_t extent, std::int64_t smallest) {
    if (extent < smallest || extent > kLargest) {
      throw Error(
          fmt::format("mmdit: {} is {}, must be in [{}, {}]", name, extent, smallest, kLargest));
    }
  };
  require("double_blocks", config.double_blocks, 0);
  require("single_blocks", config.single_blocks, 0);
  require("d_model", config.d_model, 1);
  require("heads", config.heads, 1);
  require("d_mlp", config.d_mlp, 1);
  require("d_patch", config.d_patch, 1);
  require("d_text", config.d_text, 1);
  require("d_time", config.d_time, 2);
  if (config.d_time % 2 != 0) throw Error(fmt::format("mmdit: d_time {} is odd", config.d_time));
  if (config.d_model % config.heads != 0) {
    throw Error(fmt::format("mmdit: d_model {} must be a multiple of heads, {}", config.d_model,
                            config.heads));
  }
  std::int64_t rotated = 0;
  for (const std::int64_t width : config.rope_axes) {
    require("a RoPE axis", width, 0);
    if (width % 2 != 0) throw Error(fmt::format("mmdit: a RoPE axis of {} is odd", width));
    rotated += width;
  }
  if (rotated != config.d_head()) {
    throw Error(fmt::format("mmdit: the RoPE axes have {} elements, a head has {}", rotated,
                            config.d_head()));
  }
  const std::initializer_list<std::pair<const char*, double>> positive = {
      {"rope_base", config.rope_base},
      {"time_factor", config.time_factor},
      {"time_period", config.time_period}};
  for (const auto& [name, value] : positive) {
    if (!(value > 0 && value < 1e300)) {
      throw Error(fmt::format("mmdit: {} is {}, must be positive", name, value));
    }
  }
  if (!(config.eps >= 0 && config.eps < 1)) {
    throw Error(fmt::format("mmdit: eps is {}, must be in [0, 1)", config.eps));
  }
}

std::vector<ParameterInfo> double_stream_parameters(const MMDiTConfig& config) {
  const std::int64_t d = config.d_model, d_head = config.d_head(), d_mlp = config.d_mlp;
  std::vector<ParameterInfo> parameters;
  for (const std::string stream : {"txt_", "img_"}) {
    const std::initializer_list<ParameterInfo> all = {
        {stream + "mod/lin/weight", 6 * d, d},
        {stream + "mod/lin/bias", 6 * d},
        {stream + "attn/qkv/weight", 3 * d, d},
        {stream + "attn/qkv/bias", 3 * d},
        {stream + "attn/norm/query_norm/scale", d_head},
        {stream + "attn/norm/key_norm/scale", d_head},
        {stream + "attn/proj/weight", d, d},
        {stream + "attn/proj/bias", d},
        {stream + "mlp/0/weight", d_mlp, d},
        {stream + "mlp/0/bias", d_mlp},
        {stream + "mlp/2/weight", d, d_mlp},
        {stream + "mlp/2/bias", d},
    };
    parameters.insert(parameters.end(), all);
  }
  return placed(std::move(parameters));
}

std::vector<ParameterInfo> single_stream_parameters(const MMDiTConfig& config) {
  const std::int64_t d = config.d_model, d_head = config.d_head(), d_mlp = config.d_mlp;
  return placed({
      {"modulation/lin/weight", 3 * d, d},
      {"modulation/lin/bias", 3 * d},
      {"linear1/weight", 3 * d + d_mlp, d},
      {"linear1/bias", 3 * d + d_mlp},
      {"norm/query_norm/scale", d_head},
      {"norm/key_norm/scale", d_head},
      {"linear2/weight", d, d + d_mlp},
      {"linear2/bias", d},
  });
}

std::vector<ParameterInfo> mmdit_ends_parameters(const MMDiTConfig& config) {
  const std::int64_t d = config.d_model;
  return placed({
      {"img_in/weight", d, config.d_patch},
      {"img_in/bias", d},
      {"txt_in/weight", d, config.d_text},
      {"txt_in/bias", d},
      {"time_in/in_layer/weight", d, config.d_time},
      {"time_in/in_layer/bias", d},
      {"time_in/out_layer/weight", d, d},
      {"time_in/out_layer/bias", d},
      {"final_layer/adaLN_modulation/1/weight", 2 * d, d},
      {"final_layer/adaLN_modulation/1/bias", 2 * d},
      {"final_layer/linear/weight", config.d_patch, d},
      {"final_layer/linear/bias", config.d_patch},
  });
}

std::vector<ParameterInfo> mmdit_parameters(const MMDiTConfig& config) {
  std::vector<ParameterInfo> all = mmdit_ends_parameters(config);
  const auto add = [&](const char* kind, std::int64_t blocks,
                       const std::vector<ParameterInfo>& block) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      for (const ParameterInfo& info : block) {
        all.push_back({fmt::format("{}/{}/{}", kind, b, info.name), info.rows, info.columns});
      }
    }
  };
  add("double_blocks", config.double_blocks, double_stream_parameters(config));
  add("single_blocks", config.single_blocks, single_stream_parameters(config));
  return placed(std::move(all));
}

}  // namespace knapformer
