// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/knapformer_plan.h>

#include <knapformer/plan/planner.hpp>
#include <span>
#include <string>

#include "c/status.hpp"

struct knapformer_plan {
  knapformer::Plan plan;
};

namespace knapformer::c {

/// Those options that have types of their own in C++.
struct PlanOptions {
  Topology topology;
  CostModel cost;
  Machine machine;
};

/// Throws Error for what cannot be put in C++, in the name of `function`.
KNAPFORMER_C_API PlanOptions plan_options(const knapformer_plan_options& options,
                                          const char* function);

/// Throws Error when `count` is negative, or not zero and there is no array.
template <class T>
std::span<const T> array(const T* data, std::int64_t count, const char* function,
                         const char* name) {
  if (count < 0) {
    throw Error(std::string(function) + ": " + name + " has " + std::to_string(count) +
                " entries; give 0 or more");
  }
  if (count > 0) require(data, function, name);
  return {data, static_cast<std::size_t>(count)};
}

}  // namespace knapformer::c
