// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <stdexcept>

namespace knapformer {

/// What the library throws when it is given something it cannot work with. The message says what
/// was wrong, where, with the values, and what to do. After a collective call every rank throws the
/// same.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace knapformer
