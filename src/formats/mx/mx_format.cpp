#include "formats/mx/mx_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "formats/codebooks.h"
#include "formats/e2m1.h"
#include "formats/finite.h"
#include "formats/mx/e8m0.h"

namespace nibble::formats {
namespace {

// floor(log2(magnitude rounded to one mantissa bit)); float32 subnormals count as 2^-127.
int rounded_exponent(float magnitude) {
  constexpr std::uint32_t kHalfStep = 1u << 21;  // half of the last bit that stays
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(magnitude) + kHalfStep;
  return static_cast<int>(bits >> 23) - 127;
}

class MxFormat final : public Format {
 public:
  explicit MxFormat(const Scheme& scheme) : Format(scheme) {}

  GroupParameters fit(std::span<const float> group) const override {
    require_finite(group);
    float extreme = 0;
    for (const float weight : group) {
      extreme = std::max(extreme, std::abs(weight));
    }
    constexpr int kE2m1Exponent = 2;  // 4 <= the largest values < 8
    const int exponent =
        std::clamp(rounded_exponent(extreme) - kE2m1Exponent, kMinMxExponent, kMaxMxExponent);
    return {e8m0_to_float(static_cast<std::uint8_t>(exponent + kE8m0Bias)), 0};
  }

  std::uint8_t encode(float weight, const GroupParameters& parameters) const override {
    return nearest_e2m1(weight, parameters.scale);
  }

  void encode_group(std::span<const float> weights, const GroupParameters& parameters,
                    std::span<std::uint8_t> codes) const override {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      codes[i] = nearest_e2m1(weights[i], parameters.scale);
    }
  }

  float decode(std::uint8_t code, const GroupParameters& parameters) const override {
    return parameters.scale * kE2m1[code & 15];
  }

  void decode_group(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
                    std::span<float> values) const override {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      values[i] = parameters.scale * kE2m1[codes[i] & 15];
    }
  }

  float stored_scale(double scale) const override {
    const double magnitude = std::max(std::abs(scale), 0x1p-127);
    const double exponent = std::clamp(std::nearbyint(std::log2(magnitude)), double{kMinMxExponent},
                                       double{kMaxMxExponent});
    return e8m0_to_float(static_cast<std::uint8_t>(static_cast<int>(exponent) + kE8m0Bias));
  }
};

}  // namespace

std::unique_ptr<const Format> make_mx_format(const Scheme& scheme) {
  return std::make_unique<MxFormat>(scheme);
}

}  // namespace nibble::formats
