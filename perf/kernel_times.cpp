// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernel_times.hpp"

#include <Kokkos_Core.hpp>
#include <chrono>
#include <vector>

namespace knapformer::perf {
namespace {

using Clock = std::chrono::steady_clock;
namespace tools = Kokkos::Tools::Experimental;

struct Open {
  std::string label;
  Clock::time_point start;
  double enclosed = 0;
};

// Kokkos's callbacks take no context of ours.
std::vector<Open> open;
std::map<std::string, double> times;

void begin(const char* label) { open.push_back({label, Clock::now()}); }

void end() {
  if (open.empty()) return;  // begun before we listened
  Kokkos::DefaultExecutionSpace().fence("KnapFormer::kernel_times");
  const Open done = std::move(open.back());
  open.pop_back();
  const double taken = std::chrono::duration<double>(Clock::now() - done.start).count();
  times[done.label] += taken - done.enclosed;
  if (!open.empty()) open.back().enclosed += taken;
}

void begin_kernel(const char* label, std::uint32_t, std::uint64_t*) { begin(label); }
void end_kernel(std::uint64_t) { end(); }

}  // namespace

KernelTimes::KernelTimes() {
  open.clear();
  times.clear();
  tools::set_begin_parallel_for_callback(begin_kernel);
  tools::set_end_parallel_for_callback(end_kernel);
  tools::set_begin_parallel_reduce_callback(begin_kernel);
  tools::set_end_parallel_reduce_callback(end_kernel);
  tools::set_push_region_callback(begin);
  tools::set_pop_region_callback(end);
}

KernelTimes::~KernelTimes() {
  tools::set_begin_parallel_for_callback(nullptr);
  tools::set_end_parallel_for_callback(nullptr);
  tools::set_begin_parallel_reduce_callback(nullptr);
  tools::set_end_parallel_reduce_callback(nullptr);
  tools::set_push_region_callback(nullptr);
  tools::set_pop_region_callback(nullptr);
}

const std::map<std::string, double>& KernelTimes::seconds() const { return times; }

}  // namespace knapformer::perf
