#include "formats/mx/mx_format.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "formats/e2m1_format.h"
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

class MxFormat final : public E2m1Format {
 public:
  explicit MxFormat(const Scheme& scheme) : E2m1Format(scheme) {}

  GroupParameters fit(std::span<const float> group) const override {
    require_finite(group);
    constexpr int kE2m1Exponent = 2;  // 4 <= the largest values < 8
    const int exponent = std::clamp(rounded_exponent(largest_magnitude(group)) - kE2m1Exponent,
                                    kMinMxExponent, kMaxMxExponent);
    return {e8m0_to_float(static_cast<std::uint8_t>(exponent + kE8m0Bias)), 0};
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
