// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/plan/topology.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace knapformer {

/// One way of placing sequences that a comparison tries: a topology, or everything at home.
struct Placement {
  std::optional<Topology> topology = {};  ///< none: every sequence stays whole on its home

  static constexpr std::string_view kHome = "home";  ///< the name of no balancing

  /// Parses `home` or a topology. Throws Error as Topology::parse() does.
  static Placement parse(std::string_view text);

  std::string name() const {
    return topology ? topology->name() : std::string(kHome);
  }  ///< what parse() takes
};

}  // namespace knapformer
