#pragma once

#include <span>
#include <string_view>

#include "ops/cuda/linear/linear_kernel.h"

namespace nibble::ops::cuda {

LinearKernel few_dense_kernel();     // dense/few_dense.h
LinearKernel many_dense_kernel();    // dense/lt_products.h
LinearKernel dense_kernel();         // dense/dense.h
LinearKernel few_sparse_kernel();    // sparse/
LinearKernel many_sparse_kernel();   // sparse/, then dense/lt_products.h
LinearKernel tiles_sparse_kernel();  // sparse/, of rows that keep the same groups in tiles
LinearKernel few_kept_kernel();      // two_of_four/
LinearKernel many_kept_kernel();
LinearKernel few_trellis_kernel();   // trellis/
LinearKernel many_trellis_kernel();  // trellis/, then dense/lt_products.h
LinearKernel medium_batch_kernel();  // medium_batch/
LinearKernel small_batch_kernel();   // small_batch/
LinearKernel int4_gemm_kernel();     // gemm/int4/
LinearKernel gemm_kernel();          // gemm/, of integers and books

/// The name of int4_gemm_kernel(). `nibble tune-kernels` measures gemm_kernel() in its place.
inline constexpr std::string_view kInt4Gemm = "int4-gemm";

/// All kernels of linear layers on a GPU. The first that does not refuse computes a layer.
std::span<const LinearKernel> linear_kernels();

/// The product of the table that plans of gemm.h divide and that does not refuse such layers; or
/// null: the kernel for few tokens serves any number of them.
const PlannedProduct* planned_product(const LinearShape& shape);

/// Why there is no cuBLASLt on the problem's device; empty: there is.
std::string_view blas_lt_absence(const LayerProblem& problem);

/// Why no kernel does this with its product: rows of gate and up don't stand in pairs, or float16
/// results would have something added to them. Codes and blocks are for those that write them.
Refusal epilogue_refusal(const LinearProblem& linear, bool writes_all = false);

}  // namespace nibble::ops::cuda
