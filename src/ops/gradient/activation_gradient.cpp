#include "ops/gradient/activation_gradient.h"

#include <cmath>
#include <numbers>

namespace nibble::ops::gradient {
namespace {

struct Point {
  float value;
  float slope;
};

Point gelu_tanh(float x) {
  constexpr float kRate = 0.7978845608028654f;  // sqrt(2 / pi)
  constexpr float kCubic = 0.044715f;
  const float t = std::tanh(kRate * (x + kCubic * x * x * x));
  const float inner = kRate * (1.0f + 3.0f * kCubic * x * x);
  return {0.5f * x * (1.0f + t), 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner};
}

Point at(MlpActivation activation, float x) {
  switch (activation) {
    case MlpActivation::kSilu: {
      const float sigmoid = 1.0f / (1.0f + std::exp(-x));
      return {x * sigmoid, sigmoid * (1.0f + x * (1.0f - sigmoid))};
    }
    case MlpActivation::kGelu: {
      const float cumulative = 0.5f * (1.0f + std::erf(x / std::numbers::sqrt2_v<float>));
      const float density = std::exp(-0.5f * x * x) * std::numbers::inv_sqrtpi_v<float> /
                            std::numbers::sqrt2_v<float>;
      return {x * cumulative, cumulative + x * density};
    }
    case MlpActivation::kGeluTanh:
      return gelu_tanh(x);
    case MlpActivation::kRelu:
      return x < 0.0f ? Point{0.0f, 0.0f} : Point{x, 1.0f};
    case MlpActivation::kTanh: {
      const float t = std::tanh(x);
      return {t, 1.0f - t * t};
    }
  }
  return {};
}

}  // namespace

void add_activation_gradient(MlpActivation activation, const float* x, const float* dy, float* dx,
                             std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    dx[i] += at(activation, x[i]).slope * dy[i];
  }
}

void add_gated_gradient(MlpActivation activation, const float* gate, const float* up,
                        const float* dy, float* dgate, float* dup, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Point point = at(activation, gate[i]);
    dgate[i] += point.slope * up[i] * dy[i];
    dup[i] += point.value * dy[i];
  }
}

}  // namespace nibble::ops::gradient
