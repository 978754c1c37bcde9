// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <knapformer/plan/machine.hpp>
#include <string>

namespace knapformer::cli {

/// To four digits, with the prefix of the unit: "45 GB/s"; "unlimited B/s" for infinity.
std::string quantity(double value, const char* unit);

/// In seconds, milli- or microseconds, to four digits.
std::string duration(double seconds);

/// Ranks, speed and links, on one line.
std::string describe(const Machine& machine);

}  // namespace knapformer::cli
