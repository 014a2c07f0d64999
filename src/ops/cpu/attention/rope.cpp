#include "ops/cpu/attention/rope.h"

#include <cmath>

namespace nibble::ops::cpu {

void Rotation::set(std::span<const float> inverse_frequency, std::int64_t position, float factor) {
  cosine.resize(inverse_frequency.size());
  sine.resize(inverse_frequency.size());
  for (std::size_t i = 0; i < inverse_frequency.size(); ++i) {
    const float angle = static_cast<float>(position) * inverse_frequency[i];
    cosine[i] = std::cos(angle) * factor;
    sine[i] = std::sin(angle) * factor;
  }
}

void rotate(float* head, const Rotation& rotation) {
  const std::size_t half = rotation.cosine.size();
  for (std::size_t i = 0; i < half; ++i) {
    const float a = head[i];
    const float b = head[i + half];
    head[i] = a * rotation.cosine[i] - b * rotation.sine[i];
    head[i + half] = b * rotation.cosine[i] + a * rotation.sine[i];
  }
}

}  // namespace nibble::ops::cpu
