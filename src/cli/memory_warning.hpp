// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/comm/communicator.hpp>
#include <knapformer/train/data_source.hpp>
#include <knapformer/train/simulator.hpp>

namespace knapformer::cli {

/// Collective: where the ranks of a node are predicted to need more memory than it has left for the
/// first step of simulate(), rank 0 says so on stderr. Knows host memory only, and no limits of a
/// job.
void warn_of_memory(const Communicator& world, const Device& exec, const DataSource& data,
                    const SimulationOptions& options, std::int64_t element_bytes);

}  // namespace knapformer::cli
