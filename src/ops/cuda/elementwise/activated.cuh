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
    case MlpActivation::kTanh:
      return tanhf(x);
  }
  return x;
}

template <MlpActivation kActivation, int kCount>
__device__ __forceinline__ void activate_as(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    values[i] = activated(kActivation, values[i]);
  }
}

/// All of them in place. The kind is looked at once, not for each value.
template <int kCount>
__device__ __forceinline__ void activate_all(MlpActivation activation, float (&values)[kCount]) {
  switch (activation) {
    case MlpActivation::kSilu:
      return activate_as<MlpActivation::kSilu>(values);
    case MlpActivation::kGelu:
      return activate_as<MlpActivation::kGelu>(values);
    case MlpActivation::kGeluTanh:
      return activate_as<MlpActivation::kGeluTanh>(values);
    case MlpActivation::kRelu:
      return activate_as<MlpActivation::kRelu>(values);
    case MlpActivation::kTanh:
      return activate_as<MlpActivation::kTanh>(values);
  }
}

}  // namespace nibble::ops::cuda
