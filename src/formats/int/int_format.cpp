#include "formats/int/int_format.h"

#include <algorithm>
#include <cmath>

#include "formats/finite.h"
#include "formats/fp16_scale.h"
#include "formats/super_blocks.h"

namespace nibble::formats {
namespace {

constexpr double kInt8Limit = 127;

class IntFormat final : public Format {
 public:
  explicit IntFormat(const Scheme& scheme) : Format(scheme), middle_(1 << (scheme.code.bits - 1)) {
    if (const SuperBlockType* const type = super_block_type(scheme)) {
      lowest_ = 1 << (type->code_bits - 1);
      first_code_ = middle_ - lowest_;
      last_code_ = middle_ + lowest_ - 1;
      return;
    }
    const bool mirrored = !has_zeros(scheme) && scheme.code.bits == 8;
    lowest_ = middle_;
    first_code_ = mirrored ? 1 : 0;
    last_code_ = 2 * middle_ - 1;
  }

  GroupParameters fit(std::span<const float> group) const override {
    require_finite(group);
    if (has_zeros(scheme())) {
      return fit_asymmetric(group);
    }
    const double extreme = signed_extreme(group);
    const bool mirrored = first_code_ == 1;
    return {stored_scale(mirrored ? std::abs(extreme) / kInt8Limit : -extreme / lowest_), middle_};
  }

  std::uint8_t encode(float weight, const GroupParameters& parameters) const override {
    return nearest(weight, parameters);
  }

  void encode_group(std::span<const float> weights, const GroupParameters& parameters,
                    std::span<std::uint8_t> codes) const override {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      codes[i] = nearest(weights[i], parameters);
    }
  }

  float decode(std::uint8_t code, const GroupParameters& parameters) const override {
    return parameters.scale * static_cast<float>(static_cast<int>(code) - parameters.zero);
  }

  void decode_group(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
                    std::span<float> values) const override {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      values[i] =
          parameters.scale * static_cast<float>(static_cast<int>(codes[i]) - parameters.zero);
    }
  }

  float stored_scale(double scale) const override { return fitted_scale(scheme(), scale); }

 private:
  // The element of largest magnitude, the first of equals; 0 for an empty group.
  static float signed_extreme(std::span<const float> group) {
    float extreme = 0;
    for (const float weight : group) {
      extreme = std::abs(weight) > std::abs(extreme) ? weight : extreme;
    }
    return extreme;
  }

  GroupParameters fit_asymmetric(std::span<const float> group) const {
    double low = 0;
    double high = 0;
    for (const float weight : group) {
      low = std::min(low, static_cast<double>(weight));
      high = std::max(high, static_cast<double>(weight));
    }
    const float scale = round_scale((high - low) / last_code_);
    return {scale, static_cast<int>(std::clamp(std::nearbyint(-low / scale), 0.0,
                                               static_cast<double>(last_code_)))};
  }

  // The float32 quotient decides ties rightly: next to a tie t * scale, weights lie more than half
  // a unit in the last place of t apart when divided, because the significand of an fp16 scale is
  // below 2 and t * scale is exact.
  std::uint8_t nearest(float weight, const GroupParameters& parameters) const {
    // Adding 1.5 * 2^23 leaves no fraction bits: the sum is rounded to nearest even.
    constexpr float kRounder = 0x1.8p23f;
    const auto low = static_cast<float>(first_code_ - parameters.zero);
    const auto high = static_cast<float>(last_code_ - parameters.zero);
    float steps = weight / parameters.scale;
    steps = steps > low ? steps : low;  // NaN becomes the lowest code
    steps = steps < high ? steps : high;
    return static_cast<std::uint8_t>(static_cast<int>((steps + kRounder) - kRounder) +
                                     parameters.zero);
  }

  int middle_;      // the code that stands for 0
  int lowest_ = 0;  // steps below it
  int first_code_ = 0;
  int last_code_ = 0;
};

}  // namespace

std::unique_ptr<const Format> make_int_format(const Scheme& scheme) {
  return std::make_unique<IntFormat>(scheme);
}

}  // namespace nibble::formats
