#pragma once

#include <cuda_runtime.h>

#include "ops/layer_kinds.h"

namespace nibble::ops::cuda {

/// 1 / (1 + exp(-x)), relative error below 1e-6 for |x| < 10.
__device__ __forceinline__ float sigmoid(float x) {
  float power;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.44269504088896341f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
  return result;
}

/// As cpu::activate.
__device__ __forceinline__ float activated(MlpActivation activation, float x) {
  switch (activation) {
    case MlpActivation::kSilu:
      return x * sigmoid(x);
    case MlpActivation::kGelu:
      return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case MlpActivation::kGeluTanh:
      return x * sigmoid(1.5957691216057308f * fmaf(x * x * x, 0.044715f, x));
    case MlpActivation::kRelu:
      return x < 0.0f ? 0.0f : x;
  }
  return x;
}

}  // namespace nibble::ops::cuda
