// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <knapformer/plan/error.hpp>
#include <knapformer/plan/planner.hpp>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

#include "splits.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace knapformer {
namespace {

using Input = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<const std::int64_t> span_of(const Input& array) { return {array.data(), array.shape(0)}; }

// Read-only and without a copy; `owner` keeps the memory.
template <class T>
auto view(std::span<const T> values, nb::handle owner) {
  return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(values.data(), {values.size()}, owner);
}

auto chunk_view(std::span<const Chunk> chunks, nb::handle owner) {
  static_assert(sizeof(Chunk) == 5 * sizeof(std::int64_t) && std::is_standard_layout_v<Chunk>);
  const auto* values = reinterpret_cast<const std::int64_t*>(chunks.data());
  return nb::ndarray<nb::numpy, const std::int64_t, nb::shape<-1, 5>>(values, {chunks.size(), 5},
                                                                      owner);
}

// Takes arrays, and numbers that the package has checked. The interpreter is free meanwhile.
Plan plan_arrays(const Input& lengths, const Input& offsets, const Input& costs,
                 std::string_view topology_name, std::int64_t heads, std::int64_t d_model,
                 double gamma, std::int64_t constant, const Machine& machine,
                 std::int64_t max_tokens_per_rank, std::int64_t max_attention_tokens_per_rank,
                 std::int64_t budget) {
  const nb::gil_scoped_release release;
  const Topology topology = Topology::parse(topology_name);
  const CostModel cost = CostModel::transformer(d_model, gamma, constant);
  return make_plan({.topology = topology,
                    .cost = cost,
                    .heads = heads,
                    .lengths = span_of(lengths),
                    .offsets = span_of(offsets),
                    .costs = span_of(costs),
                    .machine = machine,
                    .max_tokens_per_rank = max_tokens_per_rank,
                    .max_attention_tokens_per_rank = max_attention_tokens_per_rank,
                    .budget = budget});
}

std::string text_of(const Plan& plan) {
  std::ostringstream text;
  text << "<knapformer.Plan: " << plan.sequences() << " sequences in " << plan.all_chunks().size()
       << " chunks on " << plan.ranks() << " ranks, max/mean " << plan.max_over_mean() << ">";
  return text.str();
}

void bind_machine(nb::module_& module) {
  nb::class_<Machine>(module, "MachineNumbers", "The fields of knapformer.Machine, in C++.")
      .def(nb::init<>())
      .def(
          "__init__",
          [](Machine* self, std::int64_t ranks_per_node, double flops, double within,
             double between, double latency, std::int64_t layers, std::int64_t bytes,
             std::vector<double> speeds) {
            new (self) Machine{ranks_per_node, flops,  within, between,
                               latency,        layers, bytes,  std::move(speeds)};
          },
          "ranks_per_node"_a, "flops"_a, "bandwidth_within"_a, "bandwidth_between"_a, "latency"_a,
          "layers"_a, "bytes_per_element"_a, "speeds"_a)
      .def_static("without_communication", &Machine::without_communication)
      .def_ro("ranks_per_node", &Machine::ranks_per_node)
      .def_ro("flops", &Machine::flops)
      .def_ro("bandwidth_within", &Machine::bandwidth_within)
      .def_ro("bandwidth_between", &Machine::bandwidth_between)
      .def_ro("latency", &Machine::latency)
      .def_ro("layers", &Machine::layers)
      .def_ro("bytes_per_element", &Machine::bytes_per_element)
      .def_ro("speeds", &Machine::speeds);
}

template <class T>
auto report_array(const std::vector<T> PlanReport::*member) {
  return [member](nb::handle self) {
    const PlanReport& report = nb::cast<const PlanReport&>(self);
    return view(std::span<const T>(report.*member), self);
  };
}

void bind_report(nb::module_& module) {
  nb::class_<PlanReport>(module, "PlanReport",
                         R"(What a plan does to the group, recomputed from its chunks.

Arrays have one entry per rank and are read-only views. Work is in units of the cost model,
`constant + 6 d L + gamma L^2`, or of the caller's costs; the load of a rank is its work over its
speed. Ratios of an empty group are 1.)")
      .def_prop_ro("work_before", report_array(&PlanReport::work_before),
                   "[ranks] float64: work of each rank if everything stays home.")
      .def_prop_ro("work_after", report_array(&PlanReport::work_after),
                   "[ranks] float64: work of each rank.")
      .def_prop_ro("tokens_before", report_array(&PlanReport::tokens_before),
                   "[ranks] int64: tokens that each rank loaded.")
      .def_prop_ro("tokens_after", report_array(&PlanReport::tokens_after),
                   "[ranks] int64: tokens that each rank computes.")
      .def_prop_ro(
          "attention_tokens", report_array(&PlanReport::attention_tokens),
          "[ranks] float64: length times the share of heads, summed over a rank's sequences.")
      .def_prop_ro("seconds", report_array(&PlanReport::seconds),
                   "[ranks] float64: predicted time of a step, see Machine.")
      .def_ro("max_over_mean_before", &PlanReport::max_over_mean_before,
              "Largest over mean load if everything stays home.")
      .def_ro("max_over_mean", &PlanReport::max_over_mean, "Largest over mean load.")
      .def_ro("max_over_min_before", &PlanReport::max_over_min_before,
              "Largest over smallest load if everything stays home; infinite when a rank has none.")
      .def_ro("max_over_min", &PlanReport::max_over_min,
              "Largest over smallest load; infinite when a rank has none.")
      .def_ro("lower_bound", &PlanReport::lower_bound,
              "No plan of this topology has a smaller largest load; 0 if unknown.")
      .def_ro("lower_bound_gap", &PlanReport::lower_bound_gap, "Largest load / lower_bound - 1.")
      .def_ro("elastic_lower_bound", &PlanReport::elastic_lower_bound,
              "No plan at all has a smaller largest load; 0 if unknown.")
      .def_ro("elastic_lower_bound_gap", &PlanReport::elastic_lower_bound_gap,
              "Largest load / elastic_lower_bound - 1.")
      .def_ro("total_tokens", &PlanReport::total_tokens, "Tokens of all sequences.")
      .def_ro("moved_tokens", &PlanReport::moved_tokens,
              "Tokens computed on another rank than their home.")
      .def_ro("crossed_tokens", &PlanReport::crossed_tokens,
              "Tokens computed on another node than their home.")
      .def_ro("ulysses_tokens", &PlanReport::ulysses_tokens,
              "Rows of q, k, v and o sent around attention, over 4: total_tokens if all travel.")
      .def_ro("ulysses_bytes_per_layer", &PlanReport::ulysses_bytes_per_layer,
              "Those rows in bytes, of one forward pass.")
      .def_ro("step_seconds_before", &PlanReport::step_seconds_before,
              "Predicted time of a step if everything stays home, of the slowest rank.")
      .def_ro("step_seconds", &PlanReport::step_seconds,
              "Predicted time of a step, of the slowest rank.")
      .def_ro("ideal_seconds", &PlanReport::ideal_seconds,
              "The same with work spread in proportion to speed and no communication.")
      .def_ro("step_over_ideal", &PlanReport::step_over_ideal, "step_seconds / ideal_seconds.")
      .def_ro("plan_seconds", &PlanReport::plan_seconds,
              "Time to make the plan; the one field that differs between ranks.");
}

void bind_splits(nb::module_& module) {
  nb::class_<Splits>(module, "Splits",
                     R"(What one rank sends and receives in an all-to-all that routes its tokens.

Its own tokens count as sent to and received from itself. What arrives is in the order in which the
plan computes it: by sequence, and in each by token.)")
      .def_prop_ro(
          "rows",
          [](nb::handle self) {
            auto& rows = nb::cast<Splits&>(self).rows;
            return nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>(rows.data(), {rows.size()},
                                                                     self);
          },
          "[home tokens] int64: the rank's rows in the order in which they are sent; row r is "
          "token r of its packed sequences.")
      .def_ro("send_counts", &Splits::send_counts, "Rows for each destination, a list of int.")
      .def_ro("receive_counts", &Splits::receive_counts, "Rows from each source, a list of int.");
}

// A property of a Plan that is an array.
template <class T>
auto plan_array(std::span<const T> (Plan::*values)() const) {
  return [values](nb::handle self) { return view((nb::cast<const Plan&>(self).*values)(), self); };
}

void bind_plan(nb::module_& module) {
  nb::class_<Plan>(module, "Plan",
                   R"(For every sequence its home, its bag, and each rank's tokens and heads.

Immutable. Arrays are read-only views, which keep the plan's memory. Sequences are ordered by home
rank, then by position there.)")
      .def_prop_ro("ranks", &Plan::ranks, "How many ranks the group has.")
      .def_prop_ro("heads", &Plan::heads, "How many attention heads the model has.")
      .def_prop_ro("sequences", &Plan::sequences, "How many sequences the group has.")
      .def_prop_ro("homes", plan_array(&Plan::homes),
                   "[sequences] int64: the rank that loaded each sequence.")
      .def_prop_ro("lengths", plan_array(&Plan::lengths),
                   "[sequences] int64: tokens of each sequence.")
      .def_prop_ro("chunk_offsets", plan_array(&Plan::chunk_offsets),
                   "[sequences + 1] int64: sequence i has the chunks chunk_offsets[i] to "
                   "chunk_offsets[i + 1] - 1, in bag order; none when it has no tokens.")
      .def_prop_ro(
          "chunks",
          [](nb::handle self) {
            return chunk_view(nb::cast<const Plan&>(self).all_chunks(), self);
          },
          "[chunks, 5] int64: rank, first token within the sequence, tokens, first head, heads. "
          "The chunks of a sequence tile its tokens and its heads.")
      .def_prop_ro("hash", &Plan::hash,
                   "Identifies homes, lengths, chunks, ranks and heads: an int, the same on every "
                   "rank, compiler and CPU.")
      .def_prop_ro("report", &Plan::report, nb::rv_policy::reference_internal,
                   "What the plan does to the group.")
      .def("validate", &Plan::validate,
           "Checks every invariant; raises Error naming the first sequence that breaks one.")
      .def("splits", &splits_of, "rank"_a, R"(What `rank` sends and receives when tokens are routed.

With PyTorch, x being the packed tokens of this rank's sequences, [tokens, width]:

    s = plan.splits(rank)
    rows = torch.from_numpy(s.rows)
    routed = x.new_empty(sum(s.receive_counts), x.shape[1])
    dist.all_to_all_single(routed, x[rows], s.receive_counts, s.send_counts)

and back, with the counts exchanged:

    home = torch.empty_like(x)
    dist.all_to_all_single(home, routed, s.send_counts, s.receive_counts)
    x[rows] = home

Raises Error unless rank is from 0 to ranks - 1.)")
      .def("__repr__", &text_of);
}

}  // namespace

NB_MODULE(_core, module) {
  nb::exception<Error>(module, "Error", PyExc_ValueError).attr("__doc__") =
      "What cannot be planned: the message says what was wrong, with the values, and what to do.";
  module.attr("NO_CAP") = PlanRequest::kNoCap;
  module.attr("DEFAULT_BUDGET") = PlanRequest::kDefaultBudget;
  bind_machine(module);
  bind_report(module);
  bind_splits(module);
  bind_plan(module);
  module.def("plan_arrays", &plan_arrays, "lengths"_a.noconvert(), "offsets"_a.noconvert(),
             "costs"_a.noconvert(), "topology"_a, "heads"_a, "d_model"_a, "gamma"_a, "constant"_a,
             "machine"_a, "max_tokens_per_rank"_a, "max_attention_tokens_per_rank"_a, "budget"_a);
}

}  // namespace knapformer
