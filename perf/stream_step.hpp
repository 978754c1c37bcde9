// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstdint>
#include <memory>

namespace knapformer::perf {

struct StreamShape {
  bool double_stream = true;
  std::int64_t tokens = 4096;  ///< of one sequence, text and image
  std::int64_t text_tokens = 512;
  std::int64_t d_model = 768;
  std::int64_t heads = 12;
};

/// FLOPs of the matrix products and the attention of a forward and a backward pass: 72 L d^2, and
/// 14 L^2 d, whose backward pass makes five products.
double flops(const StreamShape& shape);

/// One block of MMDiT on one sequence of one rank, in float: its forward and its backward pass, to
/// the gradients of the tokens, the conditioning and all parameters. Random numbers, the same in
/// every run. MPI and Kokkos must be initialised.
class StreamStep {
 public:
  explicit StreamStep(const StreamShape& shape);
  ~StreamStep();

  /// Returns when it is done.
  void run() const;

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

}  // namespace knapformer::perf
