// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

namespace knapformer::test {

/// Makes the n-th `new` of this thread from now on fail, the first being number 0, and none after
/// it; no one for a negative number.
void fail_new(int n);

/// Whether it has come to that since.
bool new_has_failed();

}  // namespace knapformer::test
