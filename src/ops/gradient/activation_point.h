#pragma once

#include <cmath>
#include <numbers>

#include "core/host_device.h"
#include "ops/layer_kinds.h"

/// What an MLP's activation makes of a number, and its slope there, on a CPU and on GPUs.
namespace nibble::ops::gradient {

struct ActivationPoint {
  float value = 0;
  float slope = 0;
};

NIBBLE_HOST_DEVICE inline ActivationPoint gelu_tanh_point(float x) {
  constexpr float kRate = 0.7978845608028654f;  // sqrt(2 / pi)
  constexpr float kCubic = 0.044715f;
  const float t = std::tanh(kRate * (x + kCubic * x * x * x));
  const float inner = kRate * (1.0f + 3.0f * kCubic * x * x);
  return {0.5f * x * (1.0f + t), 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner};
}

NIBBLE_HOST_DEVICE inline ActivationPoint activation_point(MlpActivation activation, float x) {
  switch (activation) {
    case MlpActivation::kSilu: {
      const float sigmoid = 1.0f / (1.0f + std::exp(-x));
      return {x * sigmoid, sigmoid * (1.0f + x * (1.0f - sigmoid))};
    }
    case MlpActivation::kGelu: {
      constexpr float kRoot = std::numbers::sqrt2_v<float>;
      constexpr float kInverseRoot = std::numbers::inv_sqrtpi_v<float>;
      const float cumulative = 0.5f * (1.0f + std::erf(x / kRoot));
      const float density = std::exp(-0.5f * x * x) * kInverseRoot / kRoot;
      return {x * cumulative, cumulative + x * density};
    }
    case MlpActivation::kGeluTanh:
      return gelu_tanh_point(x);
    case MlpActivation::kRelu:
      return x < 0.0f ? ActivationPoint{0.0f, 0.0f} : ActivationPoint{x, 1.0f};
    case MlpActivation::kTanh: {
      const float t = std::tanh(x);
      return {t, 1.0f - t * t};
    }
  }
  return {};
}

}  // namespace nibble::ops::gradient
