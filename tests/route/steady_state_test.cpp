// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// With outputs of the caller, a step allocates no memory, on the host or in any Kokkos space,
// labels carry our prefix, and kernels stay on the instance they were given.

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "route/route_support.hpp"
#include "support/allocation_count.hpp"

namespace knapformer {
namespace {

using namespace test;  // NOLINT: a test file

using Matrix = Kokkos::View<double**, Kokkos::LayoutRight, Device>;
using PerHead = Kokkos::View<double***, Kokkos::LayoutRight, Device>;

// Kokkos' callbacks are plain functions.
std::int64_t allocations = 0;
std::int64_t kernels = 0;
std::int64_t fences = 0;
std::set<std::string> labels;
std::set<std::uint32_t> devices;

/// Kokkos copies the label of each kernel; some versions, such as 4.5, that of each fence too.
std::int64_t allocations_of_fence(const Device& exec) {
  static const std::string label = "KnapFormer::longer than a string without memory of its own";
  const std::int64_t before = allocation_count();
  exec.fence(label);
  return allocation_count() - before;
}

TEST(SteadyState, AllocatesNothingAndStaysOnItsInstance) {
  const Communicator group = world();
  const Balancer balance = balancer(group, join("g", group.size(), "n1"), 8);
  const Routing routing = balance.prepare(std::vector<std::int64_t>{40, 25});
  const Device exec = Kokkos::Experimental::partition_space(Device(), 1)[0];
  const auto home = tagged<Matrix>(home_tokens(routing), 6);
  const auto tokens = tagged<PerHead>(routed_tokens(routing), 8, 2);
  const Matrix back("back", home.extent(0), 6);
  const Matrix routed("routed", static_cast<std::size_t>(routing.routed_rows()), 6);
  const Matrix heads("heads", static_cast<std::size_t>(routing.head_rows()), 2);
  const PerHead joined("joined", tokens.extent(0), 8, 2);
  const auto sequences = tagged<Matrix>(home_sequences(routing), 6);
  const Matrix conditioning("conditioning", routing.chunks().size(), 6);
  const Matrix sums("sums", sequences.extent(0), 6);
  const auto step = [&] {
    routing.route_into(exec, std::tie(routed), home);
    routing.pre_attention_into(exec, std::tie(heads), tokens);
    routing.post_attention_into(exec, std::tie(joined), heads);
    routing.reverse_route_into(exec, std::tie(back), routed);
    routing.route_sequences_into(exec, std::tie(conditioning), sequences);
    routing.route_sequences_adjoint_into(exec, std::tie(sums), conditioning);
  };
  for (int i = 0; i < 2; ++i) step();
  namespace tools = Kokkos::Tools::Experimental;
  if (group.transport() == TransportKind::kMpi) {  // the double of NCCL allocates
    tools::set_begin_parallel_for_callback(
        [](const char*, std::uint32_t, std::uint64_t*) { ++kernels; });
    tools::set_begin_fence_callback([](const char* name, std::uint32_t, std::uint64_t*) {
      if (std::string_view(name).starts_with("KnapFormer::")) ++fences;  // not those of callbacks
    });
    step();
    tools::set_begin_parallel_for_callback(nullptr);
    tools::set_begin_fence_callback(nullptr);
    const std::int64_t of_labels = kernels + fences * allocations_of_fence(exec);
    const std::int64_t before = allocation_count();
    step();
    EXPECT_LE(allocation_count() - before, of_labels) << "more than Kokkos copies labels";
  }
  tools::set_allocate_data_callback([](Kokkos::Profiling::SpaceHandle, const char*, const void*,
                                       std::uint64_t) { ++allocations; });
  tools::set_begin_parallel_for_callback(
      [](const char* name, std::uint32_t device, std::uint64_t*) {
        labels.insert(name);
        devices.insert(device);
      });
  for (int i = 0; i < 3; ++i) step();
  tools::set_allocate_data_callback(nullptr);
  tools::set_begin_parallel_for_callback(nullptr);

  EXPECT_EQ(allocations, 0);  // in Kokkos spaces
  EXPECT_TRUE(labels.contains("KnapFormer::copy_blocks"));
  EXPECT_TRUE(labels.contains("KnapFormer::sum_terms"));
  for (const std::string& label : labels) {
    EXPECT_TRUE(label.starts_with("KnapFormer::") || label.starts_with("Kokkos::")) << label;
  }
  EXPECT_EQ(devices, std::set<std::uint32_t>{tools::device_id(exec)});
  EXPECT_EQ(values(back), values(home));
  EXPECT_EQ(values(joined), values(tokens));
  EXPECT_EQ(values(conditioning), values(tagged<Matrix>(chunk_sequences(routing), 6)));
}

}  // namespace
}  // namespace knapformer
