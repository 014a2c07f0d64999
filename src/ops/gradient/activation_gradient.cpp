#include "ops/gradient/activation_gradient.h"

#include "ops/gradient/activation_point.h"

namespace nibble::ops::gradient {

void add_activation_gradient(MlpActivation activation, const float* x, const float* dy, float* dx,
                             std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    dx[i] += activation_point(activation, x[i]).slope * dy[i];
  }
}

void add_gated_gradient(MlpActivation activation, const float* gate, const float* up,
                        const float* dy, float* dgate, float* dup, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const ActivationPoint point = activation_point(activation, gate[i]);
    dgate[i] += point.slope * up[i] * dy[i];
    dup[i] += point.value * dy[i];
  }
}

}  // namespace nibble::ops::gradient
