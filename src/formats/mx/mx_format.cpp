#include "formats/mx/mx_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "formats/codebooks.h"
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

// A magnitude index i holds values up to kUpTo[i]; the midpoint itself belongs to it when i is
// even.
constexpr std::array<float, 7> kUpTo = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};

// Comparisons that count the midpoints below `magnitude`, ties to the even index.
std::uint8_t nearest_magnitude(float magnitude) {
  int rank = 0;
  for (std::size_t i = 0; i < kUpTo.size(); ++i) {
    const bool above = i % 2 == 0 ? magnitude > kUpTo[i] : magnitude >= kUpTo[i];
    rank += above ? 1 : 0;
  }
  return static_cast<std::uint8_t>(rank);
}

std::uint8_t nearest(float weight, float scale) {
  const float steps = weight / scale;  // exact: the scale is a power of two
  return static_cast<std::uint8_t>((std::signbit(steps) ? 8 : 0) |
                                   nearest_magnitude(std::abs(steps)));
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
    return nearest(weight, parameters.scale);
  }

  void encode_group(std::span<const float> weights, const GroupParameters& parameters,
                    std::span<std::uint8_t> codes) const override {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      codes[i] = nearest(weights[i], parameters.scale);
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
