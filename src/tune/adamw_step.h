#pragma once

#include <cmath>

#include "core/host_device.h"

namespace nibble::tune {

/// What a step of AdamW does to each value (adamw.h), on a CPU and on GPUs.
struct AdamWStep {
  float share = 1;  // of the gradient that clipping leaves
  float beta1 = 0;
  float beta2 = 0;
  float correction2 = 1;  // of the root of the second moment
  float epsilon = 0;
  float rate = 0;   // with the correction of the first moment
  float decay = 0;  // share of the value that goes
};

/// Moves a value and its moments; the gradient becomes 0.
NIBBLE_HOST_DEVICE inline void move(const AdamWStep& step, float& value, float& gradient,
                                    float& first, float& second) {
  const float g = gradient * step.share;
  first = step.beta1 * first + (1.0f - step.beta1) * g;
  second = step.beta2 * second + (1.0f - step.beta2) * g * g;
  const float size = std::sqrt(second) * step.correction2 + step.epsilon;
  value = value - step.decay * value - step.rate * first / size;
  gradient = 0.0f;
}

}  // namespace nibble::tune
