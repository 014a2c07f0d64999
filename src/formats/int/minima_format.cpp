#include "formats/int/minima_format.h"

#include <algorithm>

#include "formats/finite.h"
#include "formats/fp16_scale.h"
#include "formats/int/step_loops.h"

namespace nibble::formats {
namespace {

class MinimaFormat final : public Format {
 public:
  explicit MinimaFormat(const Scheme& scheme) : Format(scheme), codes_(step_codes(scheme)) {}

  GroupParameters fit(std::span<const float> group) const override {
    require_finite(group);
    float low = 0;
    float high = 0;
    for (const float weight : group) {
      low = std::min(low, weight);
      high = std::max(high, weight);
    }
    const float minimum = stored_minimum(low);
    return {stored_scale((static_cast<double>(high) - minimum) / codes_.last), 0, minimum};
  }

  std::uint8_t encode(float weight, const GroupParameters& parameters) const override {
    return step_code(weight, parameters, codes_);
  }

  void encode_group(std::span<const float> weights, const GroupParameters& parameters,
                    std::span<std::uint8_t> codes) const override {
    core::VectorVersions<EncodeSteps>::best(weights, parameters, codes_, codes);
  }

  float decode(std::uint8_t code, const GroupParameters& parameters) const override {
    return parameters.scale * static_cast<float>(code) + parameters.minimum;
  }

  void decode_group(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
                    std::span<float> values) const override {
    core::VectorVersions<DecodeMinima>::best(codes, parameters, values);
  }

  float stored_scale(double scale) const override { return fitted_scale(scheme(), scale); }

  float stored_minimum(double minimum) const override {
    const double low = std::min(minimum, 0.0);
    return low == 0 ? 0.0f : fitted_scale(scheme(), low);
  }

 private:
  StepCodes codes_;
};

}  // namespace

std::unique_ptr<const Format> make_minima_format(const Scheme& scheme) {
  return std::make_unique<MinimaFormat>(scheme);
}

}  // namespace nibble::formats
