// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>

#include "c/handles.hpp"

namespace knapformer::c {
namespace {

constexpr const char* kCreateBalancer = "knapformer_balancer_create";

knapformer_balancer_options default_options() {
  knapformer_balancer_options options{.struct_size = sizeof(knapformer_balancer_options),
                                      .plan = {},
                                      .adapt_to_speed = 0,
                                      .speed_estimate = nullptr,
                                      .speed_estimate_count = 0};
  knapformer_plan_options_init(&options.plan);
  return options;
}

BalancerOptions options_of(const knapformer_balancer_options& given, std::int64_t ranks) {
  require_initialised(given, kCreateBalancer, "knapformer_balancer_options_init");
  PlanOptions plan = plan_options(given.plan, kCreateBalancer);
  plan.machine.check(ranks);
  const auto speeds = array(given.speed_estimate, given.speed_estimate_count, kCreateBalancer,
                            "options.speed_estimate");
  return {.topology = std::move(plan.topology),
          .cost = plan.cost,
          .heads = given.plan.heads,
          .balance = given.plan.balance != 0,
          .machine = std::move(plan.machine),
          .max_tokens_per_rank = given.plan.max_tokens_per_rank,
          .max_attention_tokens_per_rank = given.plan.max_attention_tokens_per_rank,
          .plan_budget = given.plan.budget,
          .adapt_to_speed = given.adapt_to_speed != 0,
          .speed_estimate = {speeds.begin(), speeds.end()}};
}

/// Ranks whose options are wrong take part, so that all hear of it.
Balancer create(const Communicator& group, const knapformer_balancer_options& given,
                knapformer_balancer** balancer) {
  BalancerOptions options{.topology = Topology::elastic()};
  group.agree(complaint_of([&] {
    require(balancer, kCreateBalancer, "balancer");
    options = options_of(given, group.size());
  }));
  return Balancer(group, std::move(options));
}

const Communicator* group_of(const knapformer_balancer* balancer) {
  return balancer ? &balancer->balancer.group() : nullptr;
}

PendingRouting start(const Balancer& balancer, const char* name, std::int64_t sequences,
                     const std::int64_t* lengths, const std::int64_t* costs) {
  const auto sizes = array(lengths, sequences, name, "lengths");
  const auto works =
      costs ? array(costs, sequences, name, "costs") : std::span<const std::int64_t>();
  return balancer.start_prepare(sizes, works);
}

}  // namespace
}  // namespace knapformer::c

using namespace knapformer::c;

void knapformer_balancer_options_init(knapformer_balancer_options* options) {
  if (options) *options = default_options();
}

int knapformer_balancer_create(const knapformer_communicator* communicator,
                               const knapformer_balancer_options* options,
                               knapformer_balancer** balancer) {
  const auto* group = communicator ? &communicator->group : nullptr;
  return collective(group, kCreateBalancer, "communicator", [&] {
    if (balancer) *balancer = nullptr;
    *balancer =
        new knapformer_balancer{create(*group, options ? *options : default_options(), balancer)};
  });
}

void knapformer_balancer_destroy(knapformer_balancer** balancer) {
  if (balancer) delete std::exchange(*balancer, nullptr);
}

int knapformer_balancer_prepare(const knapformer_balancer* balancer, std::int64_t sequences,
                                const std::int64_t* lengths, const std::int64_t* costs,
                                knapformer_routing** routing) {
  constexpr const char* kName = "knapformer_balancer_prepare";
  return collective(group_of(balancer), kName, "balancer", [&] {
    require(routing, kName, "routing");
    *routing = nullptr;
    *routing =
        new knapformer_routing(start(balancer->balancer, kName, sequences, lengths, costs).wait());
  });
}

int knapformer_balancer_start_prepare(const knapformer_balancer* balancer, std::int64_t sequences,
                                      const std::int64_t* lengths, const std::int64_t* costs,
                                      knapformer_pending_routing** pending) {
  constexpr const char* kName = "knapformer_balancer_start_prepare";
  return collective(group_of(balancer), kName, "balancer", [&] {
    require(pending, kName, "pending");
    *pending = nullptr;
    *pending = new knapformer_pending_routing{
        balancer->balancer.group(), start(balancer->balancer, kName, sequences, lengths, costs)};
  });
}

int knapformer_pending_routing_wait(knapformer_pending_routing** pending,
                                    knapformer_routing** routing) {
  constexpr const char* kName = "knapformer_pending_routing_wait";
  const std::unique_ptr<knapformer_pending_routing> taken(pending ? std::exchange(*pending, nullptr)
                                                                  : nullptr);
  return collective(taken ? &taken->group : nullptr, kName, "pending", [&] {
    require(routing, kName, "routing");
    *routing = nullptr;
    *routing = new knapformer_routing(taken->pending.wait());
  });
}

void knapformer_pending_routing_destroy(knapformer_pending_routing** pending) {
  if (pending) delete std::exchange(*pending, nullptr);
}

int knapformer_balancer_observe(const knapformer_balancer* balancer,
                                const knapformer_routing* routing, double busy_seconds) {
  return local([&] {
    require(balancer, "knapformer_balancer_observe", "balancer");
    require(routing, "knapformer_balancer_observe", "routing");
    balancer->balancer.observe(routing->routing, busy_seconds);
  });
}

int knapformer_balancer_get_speeds(const knapformer_balancer* balancer, std::int64_t count,
                                   double* speeds) {
  constexpr const char* kName = "knapformer_balancer_get_speeds";
  return local([&] {
    require(balancer, kName, "balancer");
    require(speeds, kName, "speeds");
    const std::vector<double> estimate = balancer->balancer.speed_estimate();
    if (count != std::ssize(estimate)) {
      throw knapformer::Error(std::string(kName) + ": " + std::to_string(count) +
                              " speeds are asked for, there are " +
                              std::to_string(estimate.size()));
    }
    std::ranges::copy(estimate, speeds);
  });
}
