// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/plan/error.hpp>

namespace knapformer {

/// An Error that every rank of a communicator throws, with the same words: nobody needs to be told.
class SharedError : public Error {
 public:
  using Error::Error;
};

}  // namespace knapformer
