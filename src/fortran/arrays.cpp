// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Arrays of Fortran as rows of bytes: the last dimension counts rows, and what is before it is one
// row.

#include <ISO_Fortran_binding.h>

#include <string>
#include <vector>

#include "c/handles.hpp"
#include "plan/message.hpp"

namespace knapformer::c {
namespace {

/// One side of a movement. Its rows have `row_bytes` bytes, or as many for each head of the model.
struct Side {
  void* data;
  std::int64_t rows;
  std::int64_t row_bytes;
};

Side side_of(const CFI_cdesc_t& array, std::int64_t heads, const std::string& name) {
  if (array.rank < 1)
    throw Error(name + " is a scalar; give an array with rows in its last dimension");
  auto stride = static_cast<std::int64_t>(array.elem_len);
  std::int64_t row_bytes = 1;
  for (int d = 0; d < array.rank; ++d) {
    if (array.dim[d].extent > 1 && array.dim[d].sm != stride) {
      throw Error(name + " is not contiguous; copy it into an array of its own first");
    }
    row_bytes = stride;
    stride *= array.dim[d].extent;
  }
  const int last = array.rank - 1;
  if (heads > 0) {
    const std::int64_t there = last > 0 ? array.dim[last - 1].extent : 0;
    if (there != heads) {
      throw Error(name + " has " + knapformer::plural(there, "head") +
                  " in its last dimension but one, the plan has " + std::to_string(heads));
    }
    row_bytes /= heads;
  }
  return {array.base_addr, array.dim[last].extent, row_bytes};
}

std::int64_t type_of(const CFI_cdesc_t& array) {
  return array.type == CFI_type_float    ? KNAPFORMER_FLOAT
         : array.type == CFI_type_double ? KNAPFORMER_DOUBLE
                                         : KNAPFORMER_BYTES;
}

struct Pair {
  const CFI_cdesc_t* from;
  const CFI_cdesc_t* to;
};

std::vector<knapformer_rows> rows_of(const std::vector<Pair>& pairs, int movement,
                                     std::int64_t heads) {
  std::vector<knapformer_rows> rows;
  for (const auto& [from, to] : pairs) {
    if (!from && !to) continue;
    if (!from || !to) throw Error("give an array to move to with each array to move from");
    const std::string number = rows.empty() ? "" : std::to_string(rows.size() + 1);
    const Side in =
        side_of(*from, movement == KNAPFORMER_PRE_ATTENTION ? heads : 0, "from" + number);
    const Side out = side_of(*to, movement == KNAPFORMER_POST_ATTENTION ? heads : 0, "to" + number);
    if (in.row_bytes != out.row_bytes) {
      throw Error("to" + number + " has rows of " + knapformer::plural(out.row_bytes, "byte") +
                  ", from" + number + " of " + std::to_string(in.row_bytes));
    }
    if (type_of(*from) != type_of(*to)) {
      throw Error("to" + number + " and from" + number + " have elements of different types");
    }
    rows.push_back({in.data, out.data, in.rows, out.rows, in.row_bytes, type_of(*from)});
  }
  return rows;
}

}  // namespace
}  // namespace knapformer::c

using namespace knapformer::c;

extern "C" KNAPFORMER_C_API int knapformer_fortran_start_prepare(
    const knapformer_balancer* balancer, std::int64_t sequences, const std::int64_t* lengths,
    std::int64_t cost_count, const std::int64_t* costs, knapformer_pending_routing** pending) {
  const knapformer::Communicator* group = balancer ? &balancer->balancer.group() : nullptr;
  return collective(group, "prepare", "the balancer", [&] {
    *pending = nullptr;
    *pending = new knapformer_pending_routing{
        *group, balancer->balancer.start_prepare({lengths, static_cast<std::size_t>(sequences)},
                                                 {costs, static_cast<std::size_t>(cost_count)})};
  });
}

extern "C" KNAPFORMER_C_API int knapformer_fortran_start_move(
    const knapformer_routing* routing, int movement, knapformer_request** request,
    const CFI_cdesc_t* from, const CFI_cdesc_t* to, const CFI_cdesc_t* from2,
    const CFI_cdesc_t* to2, const CFI_cdesc_t* from3, const CFI_cdesc_t* to3,
    const CFI_cdesc_t* from4, const CFI_cdesc_t* to4) {
  std::vector<knapformer_rows> rows;
  const int status =
      collective(routing ? &routing->routing.group() : nullptr, "move", "the routing", [&] {
        rows = rows_of({{from, to}, {from2, to2}, {from3, to3}, {from4, to4}}, movement,
                       routing->routing.plan().heads());
      });
  if (status != KNAPFORMER_SUCCESS) return status;
  return knapformer_routing_start_move(routing, movement, nullptr, std::ssize(rows), rows.data(),
                                       request);
}
