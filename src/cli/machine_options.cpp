// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/machine_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <knapformer/plan/error.hpp>

#include "cli/json_file.hpp"

namespace knapformer::cli {
namespace {

using nlohmann::json;

constexpr const char* kInfinity = "infinity";

/// Hands every field of a Machine with its name to `visit`.
template <class AnyMachine, class Visit>
void for_each_field(AnyMachine& machine, const Visit& visit) {
  visit("ranks_per_node", machine.ranks_per_node);
  visit("flops", machine.flops);
  visit("bandwidth_within", machine.bandwidth_within);
  visit("bandwidth_between", machine.bandwidth_between);
  visit("latency", machine.latency);
  visit("layers", machine.layers);
  visit("bytes_per_element", machine.bytes_per_element);
  visit("speeds", machine.speeds);
}

/// Reads the fields of one file.
class MachineReader {
 public:
  explicit MachineReader(const std::string& path)
      : source_(source_name(path)), document_(read_json(path)) {}

  void read_into(Machine& machine) const {
    if (!document_.is_object()) {
      throw Error(source_ + ": expected an object of a machine's fields, {" + names() + "}");
    }
    std::size_t known = 0;
    for_each_field(machine, [&](const std::string& name, auto& field) {
      if (!document_.contains(name)) return;
      ++known;
      read(name, document_[name], field);
    });
    if (known < document_.size()) refuse_unknown_names();
  }

 private:
  void read(const std::string& what, const json& value, std::int64_t& field) const {
    const auto number = whole_number(value);
    if (!number) fail(what, value, "a whole number");
    field = *number;
  }

  void read(const std::string& what, const json& value, double& field) const {
    if (value == kInfinity || value == "inf") {
      field = std::numeric_limits<double>::infinity();
    } else if (value.is_number()) {
      field = value.get<double>();
    } else {
      fail(what, value, fmt::format("a number or \"{}\"", kInfinity));
    }
  }

  void read(const std::string& what, const json& value, std::vector<double>& field) const {
    if (!value.is_array()) fail(what, value, "a list of numbers, one for each rank");
    field.assign(value.size(), 0);
    for (std::size_t i = 0; i < field.size(); ++i) {
      read(fmt::format("{}[{}]", what, i), value[i], field[i]);
    }
  }

  void refuse_unknown_names() const {
    for (const auto& [name, value] : document_.items()) {
      bool known = false;
      const Machine machine;
      for_each_field(
          machine, [&](const std::string& field, const auto&) { known = known || field == name; });
      if (!known) {
        throw Error(fmt::format("{}: {} is no field of a machine; expected {}", source_,
                                shown(json(name)), names()));
      }
    }
  }

  static std::string names() {
    std::string out;
    const Machine machine;
    for_each_field(machine, [&](const char* name, const auto&) {
      out += out.empty() ? name : std::string(", ") + name;
    });
    return out;
  }

  [[noreturn]] void fail(const std::string& what, const json& value,
                         const std::string& expected) const {
    throw Error(fmt::format("{}: {} is {}; expected {}", source_, what, shown(value), expected));
  }

  std::string source_;
  json document_;
};

/// The numbers of a list such as 1,1.5,2. CLI11 would pass over those that are missing.
std::vector<double> numbers_in(const std::string& list) {
  std::vector<double> numbers;
  for (const char *at = list.data(), *end = at + list.size();; ++at) {
    const auto [stop, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc() || (stop != end && *stop != ',')) {
      throw Error(fmt::format(
          "--rank-speeds is {}; expected numbers joined by commas, such as 1,1,2", list));
    }
    if (stop == end) return numbers;
    at = stop;
  }
}

std::string text(double value) { return fmt::format("{:g}", value); }

json to_json(std::int64_t value) { return value; }
json to_json(double value) { return std::isinf(value) ? json(kInfinity) : json(value); }
json to_json(const std::vector<double>& values) { return values; }

void override_with(const MachineOptions& options, Machine& machine) {
  const auto set = [](const auto& option, auto& field) {
    if (option) field = *option;
  };
  set(options.ranks_per_node, machine.ranks_per_node);
  set(options.flops, machine.flops);
  set(options.bandwidth_within, machine.bandwidth_within);
  set(options.bandwidth_between, machine.bandwidth_between);
  set(options.latency, machine.latency);
  set(options.layers, machine.layers);
  set(options.bytes_per_element, machine.bytes_per_element);
  if (!options.speeds.empty()) machine.speeds = options.speeds;
}

void add_model_options(CLI::App& group, MachineOptions& options) {
  const Machine defaults;
  group.add_option("--layers", options.layers, "layers of the model")
      ->default_str(std::to_string(defaults.layers));
  group
      .add_option("--bytes-per-element", options.bytes_per_element,
                  "of the tokens that travel: 2 for bfloat16")
      ->default_str(std::to_string(defaults.bytes_per_element));
}

CLI::App& add_group(CLI::App& app) {
  return *app.add_option_group("Machine", "what the time of a step is predicted for");
}

void add_rank_options(CLI::App& group, MachineOptions& options, const std::string& flops_default) {
  const Machine defaults;
  group
      .add_option(
          "--machine", options.file,
          "JSON {\"ranks_per_node\": 8, \"flops\": 4e14, ...}: any of ranks_per_node, flops, "
          "bandwidth_within, bandwidth_between, latency, layers, bytes_per_element, speeds; "
          "options override it")
      ->type_name("FILE");
  group.add_option("--ranks-per-node", options.ranks_per_node, "consecutive ranks share a node")
      ->default_str(std::to_string(defaults.ranks_per_node));
  group.add_option("--flops", options.flops, "FLOP/s of a rank of speed 1, as it computes")
      ->default_str(flops_default);
  group
      .add_option("--bandwidth-within", options.bandwidth_within,
                  "bytes/s of a rank to ranks of its node, or inf")
      ->default_str(text(defaults.bandwidth_within));
  group
      .add_option("--bandwidth-between", options.bandwidth_between,
                  "bytes/s of a rank to ranks of other nodes, or inf")
      ->default_str(text(defaults.bandwidth_between));
  group.add_option("--latency", options.latency, "seconds per peer and exchange")
      ->default_str(text(defaults.latency));
  group
      .add_option_function<std::string>(
          "--rank-speeds",
          [&options](const std::string& list) { options.speeds = numbers_in(list); },
          "relative speed of every rank, e.g. 1,1,2 (default: all alike)")
      ->type_name("LIST");
}

}  // namespace

void add_machine_options(CLI::App& app, MachineOptions& options) {
  CLI::App& group = add_group(app);
  add_rank_options(group, options, text(Machine{}.flops));
  add_model_options(group, options);
}

void add_hardware_options(CLI::App& app, MachineOptions& options,
                          const std::string& flops_default) {
  add_rank_options(add_group(app), options, flops_default);
}

Machine machine_of(const MachineOptions& options, const Machine& defaults) {
  Machine machine = defaults;
  if (!options.file.empty()) MachineReader(options.file).read_into(machine);
  override_with(options, machine);
  machine.check(std::ssize(machine.speeds));
  return machine;
}

nlohmann::ordered_json machine_json(const Machine& machine) {
  nlohmann::ordered_json out;
  for_each_field(machine, [&](const char* name, const auto& field) { out[name] = to_json(field); });
  return out;
}

}  // namespace knapformer::cli
