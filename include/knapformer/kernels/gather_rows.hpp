// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <knapformer/kernels/types.hpp>

namespace knapformer::kernels {

/// to(i) = from(rows(i)): from [any x d], to [rows.extent(0) x d].
template <class T>
void gather_rows(const Device& exec, const RowIndex& rows, const MatrixIn<T>& from,
                 const Matrix<T>& to);

/// to(rows(i)) = from(i), the transpose where no row appears twice; the other rows of `to` stay as
/// they are.
template <class T>
void scatter_rows(const Device& exec, const RowIndex& rows, const MatrixIn<T>& from,
                  const Matrix<T>& to);

}  // namespace knapformer::kernels
