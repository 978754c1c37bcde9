// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <algorithm>
#include <dnnl.hpp>
#include <knapformer/plan/error.hpp>
#include <string>
#include <string_view>

#include "kernels/blas.hpp"

namespace knapformer::kernels {
namespace {

using dnnl::memory;

template <class T>
constexpr memory::data_type kType =
    std::is_same_v<T, float> ? memory::data_type::f32 : memory::data_type::bf16;

/// op(x) [rows x columns] of a row-major x.
template <class T>
memory::desc describe(std::int64_t rows, std::int64_t columns, std::int64_t distance,
                      Transpose transpose) {
  const bool turned = transpose == Transpose::kYes;
  const std::int64_t least = std::max<std::int64_t>(distance, turned ? rows : columns);
  return {{rows, columns}, kType<T>, turned ? memory::dims{1, least} : memory::dims{least, 1}};
}

/// c = alpha a b + beta c.
dnnl::primitive_attr scaled(float alpha, float beta) {
  dnnl::post_ops steps;
#if DNNL_VERSION_MAJOR >= 3
  if (alpha != 1) steps.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0);
#else
  if (alpha != 1) steps.append_eltwise(1, dnnl::algorithm::eltwise_linear, alpha, 0);
#endif
  if (beta != 0) steps.append_sum(beta);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(steps);
  return attributes;
}

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

/// Empty where there is none. oneDNN itself remembers those of late.
dnnl::matmul::primitive_desc plan(const memory::desc& a, const memory::desc& b,
                                  const memory::desc& c, const dnnl::primitive_attr& attributes) {
  constexpr bool kAllowEmpty = true;
#if DNNL_VERSION_MAJOR >= 3
  return {cpu(), a, b, c, attributes, kAllowEmpty};
#else
  return {dnnl::matmul::desc(a, b, c), attributes, cpu(), kAllowEmpty};
#endif
}

memory hold(const memory::desc& description, const void* data) {
  return {description, cpu(), const_cast<void*>(data)};
}

}  // namespace

template <class C>
bool onednn_gemm(Transpose transpose_a, Transpose transpose_b, std::int64_t m, std::int64_t n,
                 std::int64_t k, float alpha, const bfloat16* a, std::int64_t lda,
                 const bfloat16* b, std::int64_t ldb, float beta, C* c, std::int64_t ldc) try {
  if (m == 0 || n == 0 || k == 0) return false;
  const auto a_desc = describe<bfloat16>(m, k, lda, transpose_a);
  const auto b_desc = describe<bfloat16>(k, n, ldb, transpose_b);
  const auto c_desc = describe<C>(m, n, ldc, Transpose::kNo);
  const auto product = plan(a_desc, b_desc, c_desc, scaled(alpha, beta));
  // The reference implementation, where it is the only one, is many times slower than the panels.
  if (!product || std::string_view(product.impl_info_str()).starts_with("ref")) return false;
  dnnl::stream stream(cpu());
  dnnl::matmul(product).execute(stream, {{DNNL_ARG_SRC, hold(a_desc, a)},
                                         {DNNL_ARG_WEIGHTS, hold(b_desc, b)},
                                         {DNNL_ARG_DST, hold(c_desc, c)}});
  stream.wait();
  return true;
} catch (const dnnl::error& error) {
  throw Error(std::string("gemm: oneDNN: ") + error.what());
}

std::string onednn_version() {
  const dnnl::version_t& version = *dnnl::version();
  return std::to_string(version.major) + '.' + std::to_string(version.minor) + '.' +
         std::to_string(version.patch);
}

#define KNAPFORMER_INSTANTIATE(C)                                                                  \
  template bool onednn_gemm(Transpose, Transpose, std::int64_t, std::int64_t, std::int64_t, float, \
                            const bfloat16*, std::int64_t, const bfloat16*, std::int64_t, float,   \
                            C*, std::int64_t);
KNAPFORMER_INSTANTIATE(float)
KNAPFORMER_INSTANTIATE(bfloat16)

}  // namespace knapformer::kernels
