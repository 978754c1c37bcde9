// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace knapformer::test {

/// What Kokkos tells tools while this is alive. One at a time: its callbacks are plain functions.
class ToolsRecord {
 public:
  ToolsRecord() {
    namespace tools = Kokkos::Tools::Experimental;
    active() = this;
    tools::set_push_region_callback([](const char* name) { active()->push(name); });
    tools::set_pop_region_callback([] { active()->pop(); });
    const auto kernel = [](const char* name, std::uint32_t, std::uint64_t*) {
      active()->kernels[name].insert(active()->path());
    };
    tools::set_begin_parallel_for_callback(kernel);
    tools::set_begin_parallel_reduce_callback(kernel);
    tools::set_begin_parallel_scan_callback(kernel);
    tools::set_allocate_data_callback([](Kokkos::Profiling::SpaceHandle, const char* name,
                                         const void* data, std::uint64_t bytes) {
      active()->allocations[name] += 1;
      const std::string_view label(name);
      if (!label.starts_with("Kokkos::") || label.find("scratch") == label.npos) {
        active()->live[data] = {name, static_cast<std::int64_t>(bytes)};
      }
    });
    tools::set_deallocate_data_callback([](Kokkos::Profiling::SpaceHandle, const char*,
                                           const void* data,
                                           std::uint64_t) { active()->live.erase(data); });
  }
  ~ToolsRecord() {
    namespace tools = Kokkos::Tools::Experimental;
    tools::set_push_region_callback(nullptr);
    tools::set_pop_region_callback(nullptr);
    tools::set_begin_parallel_for_callback(nullptr);
    tools::set_begin_parallel_reduce_callback(nullptr);
    tools::set_begin_parallel_scan_callback(nullptr);
    tools::set_allocate_data_callback(nullptr);
    tools::set_deallocate_data_callback(nullptr);
    active() = nullptr;
  }
  ToolsRecord(const ToolsRecord&) = delete;
  ToolsRecord& operator=(const ToolsRecord&) = delete;

  /// Bytes of `live`.
  std::int64_t live_bytes() const {
    std::int64_t sum = 0;
    for (const auto& [data, allocation] : live) sum += allocation.bytes;
    return sum;
  }

  /// Whether a region was entered within another one, next to it or deeper.
  bool has_region(const std::string& name, const std::string& within = {}) const {
    for (const std::string& path : regions) {
      const bool ends = path.ends_with("/" + name);
      if (ends && (within.empty() || path.find("/" + within + "/") != std::string::npos)) {
        return true;
      }
    }
    return false;
  }

  struct Allocation {
    std::string label;
    std::int64_t bytes = 0;
  };

  std::map<std::string, std::int64_t> allocations;       ///< how many, by label
  std::map<std::string, std::set<std::string>> kernels;  ///< in which regions, by label
  std::set<std::string> regions;                         ///< as paths: "/outer/inner"
  std::vector<std::string> open;                         ///< regions now, outermost first
  bool popped_too_often = false;
  std::map<const void*, Allocation> live;  ///< without the scratch memory that Kokkos keeps

 private:
  static ToolsRecord*& active() {
    static ToolsRecord* record = nullptr;
    return record;
  }
  std::string path() const {
    std::string all;
    for (const std::string& name : open) all += "/" + name;
    return all;
  }
  void push(const char* name) {
    open.emplace_back(name);
    regions.insert(path());
  }
  void pop() {
    popped_too_often = popped_too_often || open.empty();
    if (!open.empty()) open.pop_back();
  }
};

}  // namespace knapformer::test
