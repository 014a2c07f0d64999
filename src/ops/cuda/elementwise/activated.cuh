#pragma once

#include <cuda_runtime.h>

#include "ops/layer_kinds.h"

namespace nibble::ops::cuda {

/// 1 / (1 + 2^x), relative error below 1e-6 for |x| < 14.
__device__ __forceinline__ float sigmoid_of_power(float x) {
  float power;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
  return result;
}

/// 1 / (1 + exp(-x)).
__device__ __forceinline__ float sigmoid(float x) {
  return sigmoid_of_power(x * -1.44269504088896341f);
}

/// x times the normal distribution at x, to 3e-7 max(1, |x|). The distribution is 1 / (1 + 2^(x
/// p(x^2))): p is the polynomial that loses least over |x| <= 5.5; beyond, it stays what it is
/// there. Takes half of the time of erff().
__device__ __forceinline__ float gelu(float x) {
  const float square = fminf(x * x, 30.25f);
  float p = -5.209962683494496e-09f;
  p = fmaf(p, square, 3.8504737176481285e-07f);
  p = fmaf(p, square, -1.1452468243078329e-05f);
  p = fmaf(p, square, 1.5938970318529755e-04f);
  p = fmaf(p, square, 9.559190948493779e-05f);
  p = fmaf(p, square, -0.10483857989311218f);
  p = fmaf(p, square, -2.3022072315216064f);
  return x * sigmoid_of_power(x * p);
}

/// As cpu::activate.
__device__ __forceinline__ float activated(MlpActivation activation, float x) {
  switch (activation) {
    case MlpActivation::kSilu:
      return x * sigmoid(x);
    case MlpActivation::kGelu:
      return gelu(x);
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
