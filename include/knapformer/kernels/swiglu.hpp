// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

/// out = silu(gate) * up (arXiv 2002.05202). gate_up [rows x 2 * hidden]: the gates, then the ups;
/// out [rows x hidden].
template <class T>
void swiglu(const Device& exec, const MatrixIn<T>& gate_up, const Matrix<T>& out);

/// Writes dgate_up [rows x 2 * hidden] from dout [rows x hidden].
template <class T>
void swiglu_backward(const Device& exec, const MatrixIn<T>& gate_up, const MatrixIn<T>& dout,
                     const Matrix<T>& dgate_up);

}  // namespace knapformer::kernels
