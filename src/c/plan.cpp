// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "c/plan.hpp"

#include <type_traits>

namespace knapformer::c {
namespace {

static_assert(sizeof(knapformer_chunk) == sizeof(Chunk) && std::is_standard_layout_v<Chunk>);
static_assert(KNAPFORMER_NO_CAP == PlanRequest::kNoCap);
static_assert(KNAPFORMER_DEFAULT_BUDGET == PlanRequest::kDefaultBudget);

knapformer_plan_options default_options() {
  const Machine machine;
  return {.struct_size = sizeof(knapformer_plan_options),
          .topology = "elastic",
          .d_model = 3072,
          .gamma = 0.5,
          .constant = 0,
          .heads = 1,
          .balance = 1,
          .machine = {.ranks_per_node = machine.ranks_per_node,
                      .flops = machine.flops,
                      .bandwidth_within = machine.bandwidth_within,
                      .bandwidth_between = machine.bandwidth_between,
                      .latency = machine.latency,
                      .layers = machine.layers,
                      .bytes_per_element = machine.bytes_per_element,
                      .speeds = nullptr,
                      .speed_count = 0},
          .max_tokens_per_rank = PlanRequest::kNoCap,
          .max_attention_tokens_per_rank = PlanRequest::kNoCap,
          .budget = PlanRequest::kDefaultBudget};
}

/// The number of sequences. Offsets in between are for the planner to judge, but it must be able to
/// read what they lead to.
std::int64_t count_sequences(std::span<const std::int64_t> offsets, const char* function) {
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
    if (offsets[0] == 0 && offsets[r] <= offsets[r + 1]) continue;
    throw Error(std::string(function) + ": offsets[" + std::to_string(r) + "] is " +
                std::to_string(offsets[r]) + " and the next one " + std::to_string(offsets[r + 1]) +
                "; they start at 0 and never decrease");
  }
  return offsets.back();
}

Plan make(const knapformer_plan_options& given, std::int64_t ranks, const std::int64_t* offsets,
          const std::int64_t* lengths, const std::int64_t* costs) {
  constexpr const char* kName = "knapformer_plan_make";
  const PlanOptions options = plan_options(given, kName);
  if (ranks < 1 || ranks > Topology::kAnyDegree) {
    throw Error(std::string(kName) + ": " + std::to_string(ranks) +
                " ranks; give a number from 1 to " + std::to_string(Topology::kAnyDegree));
  }
  const auto starts = array(offsets, ranks + 1, kName, "offsets");
  const std::int64_t sequences = count_sequences(starts, kName);
  const PlanRequest request{
      .topology = options.topology,
      .cost = options.cost,
      .heads = given.heads,
      .lengths = array(lengths, sequences, kName, "lengths"),
      .offsets = starts,
      .costs = costs ? array(costs, sequences, kName, "costs") : std::span<const std::int64_t>(),
      .machine = options.machine,
      .max_tokens_per_rank = given.max_tokens_per_rank,
      .max_attention_tokens_per_rank = given.max_attention_tokens_per_rank,
      .budget = given.budget};
  return given.balance ? make_plan(request) : make_home_plan(request);
}

}  // namespace

PlanOptions plan_options(const knapformer_plan_options& options, const char* function) {
  require_initialised(options, function, "knapformer_plan_options_init");
  require(options.topology, function, "options.topology");
  const knapformer_machine& machine = options.machine;
  const auto speeds =
      array(machine.speeds, machine.speed_count, function, "options.machine.speeds");
  return {Topology::parse(options.topology),
          CostModel::transformer(options.d_model, options.gamma, options.constant),
          Machine{.ranks_per_node = machine.ranks_per_node,
                  .flops = machine.flops,
                  .bandwidth_within = machine.bandwidth_within,
                  .bandwidth_between = machine.bandwidth_between,
                  .latency = machine.latency,
                  .layers = machine.layers,
                  .bytes_per_element = machine.bytes_per_element,
                  .speeds = {speeds.begin(), speeds.end()}}};
}

}  // namespace knapformer::c

using namespace knapformer::c;

void knapformer_plan_options_init(knapformer_plan_options* options) {
  if (options) *options = default_options();
}

int knapformer_plan_make(const knapformer_plan_options* options, std::int64_t ranks,
                         const std::int64_t* offsets, const std::int64_t* lengths,
                         const std::int64_t* costs, knapformer_plan** plan) {
  return local([&] {
    require(plan, "knapformer_plan_make", "plan");
    *plan = nullptr;
    *plan = new knapformer_plan{
        make(options ? *options : default_options(), ranks, offsets, lengths, costs)};
  });
}

void knapformer_plan_destroy(knapformer_plan** plan) {
  if (plan) delete std::exchange(*plan, nullptr);
}

int knapformer_plan_get_arrays(const knapformer_plan* plan, knapformer_plan_arrays* arrays) {
  return local([&] {
    require(plan, "knapformer_plan_get_arrays", "plan");
    require(arrays, "knapformer_plan_get_arrays", "arrays");
    const knapformer::Plan& p = plan->plan;
    *arrays = {.ranks = p.ranks(),
               .heads = p.heads(),
               .sequences = p.sequences(),
               .chunk_count = std::ssize(p.all_chunks()),
               .homes = p.homes().data(),
               .lengths = p.lengths().data(),
               .chunk_offsets = p.chunk_offsets().data(),
               .chunks = reinterpret_cast<const knapformer_chunk*>(p.all_chunks().data()),
               .hash = p.hash()};
  });
}

int knapformer_plan_get_report(const knapformer_plan* plan, knapformer_plan_report* report) {
  return local([&] {
    require(plan, "knapformer_plan_get_report", "plan");
    require(report, "knapformer_plan_get_report", "report");
    const knapformer::PlanReport& r = plan->plan.report();
    *report = {.ranks = plan->plan.ranks(),
               .work_before = r.work_before.data(),
               .work_after = r.work_after.data(),
               .tokens_before = r.tokens_before.data(),
               .tokens_after = r.tokens_after.data(),
               .attention_tokens = r.attention_tokens.data(),
               .seconds = r.seconds.data(),
               .max_over_mean_before = r.max_over_mean_before,
               .max_over_mean = r.max_over_mean,
               .max_over_min_before = r.max_over_min_before,
               .max_over_min = r.max_over_min,
               .lower_bound = r.lower_bound,
               .lower_bound_gap = r.lower_bound_gap,
               .elastic_lower_bound = r.elastic_lower_bound,
               .elastic_lower_bound_gap = r.elastic_lower_bound_gap,
               .total_tokens = r.total_tokens,
               .moved_tokens = r.moved_tokens,
               .crossed_tokens = r.crossed_tokens,
               .ulysses_tokens = r.ulysses_tokens,
               .ulysses_bytes_per_layer = r.ulysses_bytes_per_layer,
               .step_seconds_before = r.step_seconds_before,
               .step_seconds = r.step_seconds,
               .ideal_seconds = r.ideal_seconds,
               .step_over_ideal = r.step_over_ideal,
               .plan_seconds = r.plan_seconds};
  });
}
