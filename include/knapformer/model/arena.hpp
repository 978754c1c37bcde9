// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <cstddef>
#include <cstdint>
#include <knapformer/kernels/types.hpp>

namespace knapformer {

/// Device memory that several arrays share, and that only ever grows: used again and again, it soon
/// allocates nothing.
template <class T>
class Arena {
 public:
  /// Hands out arrays one after another. They live as long as the arena is not laid out anew.
  class Cursor {
   public:
    /// From `base` on; null to count only.
    explicit Cursor(std::byte* base) : base_(base) {}
    /// The next `n` elements, aligned to 64 bytes.
    Vector<T> vector(std::int64_t n) { return Vector<T>(take<T>(n), n); }
    /// The next rows * columns elements.
    Matrix<T> matrix(std::int64_t rows, std::int64_t columns) {
      return Matrix<T>(take<T>(rows * columns), rows, columns);
    }
    /// The next rows * heads * d_head elements.
    HeadRows<T> head_rows(std::int64_t rows, std::int64_t heads, std::int64_t d_head) {
      return HeadRows<T>(take<T>(rows * heads * d_head), rows, heads, d_head);
    }
    /// For what is summed or kept without rounding to T.
    Vector<Accumulate<T>> wide_vector(std::int64_t n) {
      return Vector<Accumulate<T>>(take<Accumulate<T>>(n), n);
    }
    /// The same, rows * columns of them.
    Matrix<Accumulate<T>> wide_matrix(std::int64_t rows, std::int64_t columns) {
      return Matrix<Accumulate<T>>(take<Accumulate<T>>(rows * columns), rows, columns);
    }
    std::int64_t used() const { return used_; }  ///< bytes handed out, gaps for alignment included

   private:
    template <class Element>
    Element* take(std::int64_t n) {
      constexpr std::int64_t kLine = 64;  // of a cache
      auto* const start = base_ == nullptr ? nullptr : reinterpret_cast<Element*>(base_ + used_);
      used_ += (n * static_cast<std::int64_t>(sizeof(Element)) + kLine - 1) / kLine * kLine;
      return start;
    }
    std::byte* base_;
    std::int64_t used_ = 0;
  };

  /// Calls assign(Cursor&), which takes its arrays from the cursor: once to count, and once for
  /// good. What was laid out before is lost.
  template <class Assign>
  void lay_out(const Device& exec, const Assign& assign) {
    Cursor count(nullptr);
    assign(count);
    if (count.used() > static_cast<std::int64_t>(storage_.extent(0))) {
      storage_ = {};  // before the new one is there
      storage_ = Vector<std::byte>(
          Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "KnapFormer::workspace"),
          count.used());
    }
    Cursor place(storage_.data());
    assign(place);
  }

  /// Of device memory held.
  std::int64_t bytes() const { return static_cast<std::int64_t>(storage_.span()); }

 private:
  Vector<std::byte> storage_;
};

}  // namespace knapformer
