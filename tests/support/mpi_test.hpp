// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <knapformer/comm/communicator.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace knapformer::test {

/// All ranks of the test. Impatient, so that a defect ends in an error and not in a hang. No rank
/// begins before all have come, nor returns before it is complete on all, so that none is still
/// busy elsewhere when another one waits or fails on purpose.
inline Communicator world(CommunicatorOptions options = {}) {
  if (options.timeout_seconds == CommunicatorOptions{}.timeout_seconds) {
    options.timeout_seconds = 30;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Communicator group(MPI_COMM_WORLD, std::move(options));
  MPI_Barrier(MPI_COMM_WORLD);
  return group;
}

/// For tests in which ranks wait in vain. Reports go to `log`.
inline CommunicatorOptions impatient(std::vector<std::string>* log = nullptr) {
  CommunicatorOptions options;
  options.report_seconds = 0.1;
  options.timeout_seconds = 0.5;
  if (log) options.log = [log](std::string_view text) { log->emplace_back(text); };
  return options;
}

/// The message of the Error that `action` throws; empty when it throws none.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// Whether all ranks hold the same text. Uses a communicator of its own.
inline bool same_everywhere(const std::string& text) {
  const auto all = world().all_gather_varying(std::span<const char>(text));
  std::string everyone;
  for (std::size_t r = 0; r < all.counts.size(); ++r) everyone += text;
  return everyone == std::string(all.values.begin(), all.values.end());
}

/// The parts as one text.
template <class... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace knapformer::test
