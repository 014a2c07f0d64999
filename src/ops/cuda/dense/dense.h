#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "core/dtype.h"

namespace nibble::ops::cuda {

/// A weight [n, k] in float32, float16 or bfloat16, row-major, on the device, 16-byte aligned.
struct DenseView {
  const void* data = nullptr;
  core::DType type = core::DType::kF32;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

/// What becomes of a product.
struct DenseUse {
  float factor = 1.0f;
  bool add = false;  // to what y holds
};

/// y = factor x W^T + bias in float32 arithmetic; x [m, k], y [m, n] with rows ldy apart, bias [n]
/// or null. The order of a sum depends on k alone. Eight tokens share one reading of the weight:
/// made for few of them.
void dense(const DenseView& weight, const float* x, std::int64_t m, float* y, std::int64_t ldy,
           const float* bias, cudaStream_t stream, const DenseUse& use = {});

}  // namespace nibble::ops::cuda
