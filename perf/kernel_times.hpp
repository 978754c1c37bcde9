// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <map>
#include <string>

namespace knapformer::perf {

/// Where the time of the host goes, by the labels of Kokkos's kernels and profiling regions: from
/// its construction to its destruction everything launched is fenced, and its seconds, without
/// those of what it encloses, are added up. One at a time.
class KernelTimes {
 public:
  KernelTimes();
  ~KernelTimes();
  KernelTimes(const KernelTimes&) = delete;
  KernelTimes& operator=(const KernelTimes&) = delete;

  const std::map<std::string, double>& seconds() const;
};

}  // namespace knapformer::perf
