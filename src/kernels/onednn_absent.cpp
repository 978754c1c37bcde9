// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/blas.hpp"

namespace knapformer::kernels {

template <class C>
bool onednn_gemm(Transpose, Transpose, std::int64_t, std::int64_t, std::int64_t, float,
                 const bfloat16*, std::int64_t, const bfloat16*, std::int64_t, float, C*,
                 std::int64_t) {
  return false;
}

std::string onednn_version() { return {}; }

#define KNAPFORMER_INSTANTIATE(C)                                                                  \
  template bool onednn_gemm(Transpose, Transpose, std::int64_t, std::int64_t, std::int64_t, float, \
                            const bfloat16*, std::int64_t, const bfloat16*, std::int64_t, float,   \
                            C*, std::int64_t);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(bfloat16)

}  // namespace knapformer::kernels
