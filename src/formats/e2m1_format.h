#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/codebooks.h"
#include "formats/e2m1.h"
#include "formats/format.h"

namespace nibble::formats {

/// What formats with E2M1 codes share, w = scale * E2M1(code), codes as in e2m1.h. They differ in
/// how scales are fitted and stored.
class E2m1Format : public Format {
 public:
  std::uint8_t encode(float weight, const GroupParameters& parameters) const final {
    return nearest_e2m1(weight, parameters.scale);
  }

  void encode_group(std::span<const float> weights, const GroupParameters& parameters,
                    std::span<std::uint8_t> codes) const final {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      codes[i] = nearest_e2m1(weights[i], parameters.scale);
    }
  }

  float decode(std::uint8_t code, const GroupParameters& parameters) const final {
    return parameters.scale * kE2m1[code & 15];
  }

  void decode_group(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
                    std::span<float> values) const final {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      values[i] = parameters.scale * kE2m1[codes[i] & 15];
    }
  }

 protected:
  using Format::Format;
};

/// max|w|; 0 of nothing.
inline float largest_magnitude(std::span<const float> weights) {
  float largest = 0;
  for (const float weight : weights) {
    largest = std::max(largest, std::abs(weight));
  }
  return largest;
}

}  // namespace nibble::formats
