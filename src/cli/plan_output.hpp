// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/plan/plan.hpp>
#include <knapformer/plan/topology.hpp>
#include <string>

namespace knapformer::cli {

/// The whole plan, for programs.
std::string plan_json(const Plan& plan, const Topology& topology, const Machine& machine);

/// What the plan achieves, for people.
std::string plan_table(const Plan& plan, const Topology& topology, const Machine& machine);

}  // namespace knapformer::cli
