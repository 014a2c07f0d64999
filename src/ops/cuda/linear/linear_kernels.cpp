#include "ops/cuda/linear/linear_kernels.h"

#include <array>

#include "ops/cuda/fp8/fp8_kernel.h"
#include "ops/cuda/linear/half_launches.h"

namespace nibble::ops::cuda {

std::span<const LinearKernel> linear_kernels() {
  static const std::array kernels = {
      few_dense_kernel(),     // of floats of 16 bits
      many_dense_kernel(),    // of floats, by cuBLASLt
      dense_kernel(),         // of floats, in float32
      medium_batch_kernel(),  // of units, for tens of tokens
      small_batch_kernel(),   // of units, for a few
      int4_gemm_kernel(),     // of 4-bit weights and activations, for many
      gemm_kernel(),          // of units, for many
      fp8_few_kernel(),       // of E4M3 numbers
      fp8_gemm_kernel(),
      tiles_sparse_kernel(),  // of block-sparse rows that keep the same groups in tiles
      few_sparse_kernel(),    // of others
      many_sparse_kernel(),   // of both, as float16 by cuBLASLt
      few_kept_kernel(),      // of two of each four weights
      many_kept_kernel(),
      few_trellis_kernel(),   // of trellis codes
      many_trellis_kernel(),  // of them as float16 by cuBLASLt
  };
  return kernels;
}

const PlannedProduct* planned_product(const LinearShape& shape) {
  for (const LinearKernel& kernel : linear_kernels()) {
    if (kernel.product != nullptr && !kernel.product->refusal(shape)) {
      return kernel.product;
    }
  }
  return nullptr;
}

std::string_view blas_lt_absence(const LayerProblem& problem) {
  const auto ask = problem.plan.device.blas_lt_absence;
  return ask == nullptr ? std::string_view() : ask();
}

Refusal float_result_refusal(const LinearProblem& linear) {
  const Epilogue& epilogue = linear.epilogue;
  if (epilogue.gate) {
    return Reason("it joins no gates");
  }
  if (epilogue.half || epilogue.codes) {
    return Reason("its results are float32");
  }
  return epilogue_refusal(linear);
}

Refusal epilogue_refusal(const LinearProblem& linear, bool writes_all) {
  const Epilogue& epilogue = linear.epilogue;
  if (epilogue.codes && !(writes_all && epilogue.half)) {
    return Reason("it writes no codes for the next layer");
  }
  if (epilogue.blocks && !writes_all) {
    return Reason("it sends nothing to another device");
  }
  if (epilogue.blocks && linear.n % BlockOutput::kRowStep != 0) {
    return Reason("{} outputs travel together, of {} some would be left", BlockOutput::kRowStep,
                  linear.n);
  }
  if (epilogue.activation && !epilogue.half) {
    return Reason("only results in float16 are activated");
  }
  if (!epilogue.half && !epilogue.gate && !epilogue.blocks) {
    return std::nullopt;
  }
  if (epilogue.gate && (!linear.pairs || epilogue.activation)) {
    return Reason("rows of gate and up don't stand in pairs");
  }
  if (epilogue.adds) {
    return Reason("nothing is added to results that are rounded");
  }
  if (linear.scheme.activation.carries_zeros()) {
    return Reason("what activations owe to their zeros is added to the product");
  }
  if (linear.scheme.activation.keeps_outliers) {
    return Reason("outliers are added to the product");
  }
  return std::nullopt;
}

}  // namespace nibble::ops::cuda
