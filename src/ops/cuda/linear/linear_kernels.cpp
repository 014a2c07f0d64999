#include "ops/cuda/linear/linear_kernels.h"

#include <array>

namespace nibble::ops::cuda {

std::span<const LinearKernel> linear_kernels() {
  static const std::array kernels = {few_dense_kernel(),    many_dense_kernel(),  dense_kernel(),
                                     medium_batch_kernel(), small_batch_kernel(), gemm_kernel()};
  return kernels;
}

Refusal gate_refusal(const LinearProblem& linear) {
  if (!linear.pairs) {
    return Reason("rows of gate and up don't stand in pairs");
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
