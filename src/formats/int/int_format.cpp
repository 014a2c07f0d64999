#include "formats/int/int_format.h"

#include <algorithm>
#include <cmath>

#include "formats/finite.h"
#include "formats/fp16_scale.h"
#include "formats/int/step_loops.h"

namespace nibble::formats {
namespace {

constexpr double kInt8Limit = 127;

class IntFormat final : public Format {
 public:
  explicit IntFormat(const Scheme& scheme)
      : Format(scheme), middle_(1 << (scheme.code.bits - 1)), codes_(step_codes(scheme)) {}

  GroupParameters fit(std::span<const float> group) const override {
    require_finite(group);
    if (has_zeros(scheme())) {
      return fit_asymmetric(group);
    }
    const double extreme = signed_extreme(group);
    const bool mirrored = codes_.first == 1;
    return {stored_scale(mirrored ? std::abs(extreme) / kInt8Limit
                                  : -extreme / (middle_ - codes_.first)),
            middle_};
  }

  std::uint8_t encode(float weight, const GroupParameters& parameters) const override {
    return step_code(weight, parameters, codes_);
  }

  void encode_group(std::span<const float> weights, const GroupParameters& parameters,
                    std::span<std::uint8_t> codes) const override {
    core::VectorVersions<EncodeSteps>::best(weights, parameters, codes_, codes);
  }

  float decode(std::uint8_t code, const GroupParameters& parameters) const override {
    return parameters.scale * static_cast<float>(static_cast<int>(code) - parameters.zero);
  }

  void decode_group(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
                    std::span<float> values) const override {
    core::VectorVersions<DecodeSteps>::best(codes, parameters, values);
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
    const float scale = round_scale((high - low) / codes_.last);
    return {scale, static_cast<int>(std::clamp(std::nearbyint(-low / scale), 0.0,
                                               static_cast<double>(codes_.last)))};
  }

  int middle_;  // the code that stands for 0
  StepCodes codes_;
};

}  // namespace

std::unique_ptr<const Format> make_int_format(const Scheme& scheme) {
  return std::make_unique<IntFormat>(scheme);
}

}  // namespace nibble::formats
