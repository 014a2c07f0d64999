#include "formats/int/minima_format.h"

#include <algorithm>
#include <cmath>

#include "formats/finite.h"
#include "formats/fp16_scale.h"
#include "formats/super_blocks.h"

namespace nibble::formats {
namespace {

int code_bits(const Scheme& scheme) {
  const SuperBlockType* const type = super_block_type(scheme);
  return type == nullptr ? scheme.code.bits : type->code_bits;
}

class MinimaFormat final : public Format {
 public:
  explicit MinimaFormat(const Scheme& scheme)
      : Format(scheme), last_code_(static_cast<float>((1 << code_bits(scheme)) - 1)) {}

  GroupParameters fit(std::span<const float> group) const override {
    require_finite(group);
    float low = 0;
    float high = 0;
    for (const float weight : group) {
      low = std::min(low, weight);
      high = std::max(high, weight);
    }
    const float minimum = stored_minimum(low);
    return {stored_scale((static_cast<double>(high) - minimum) / last_code_), 0, minimum};
  }

  std::uint8_t encode(float weight, const GroupParameters& parameters) const override {
    const float steps = (weight - parameters.minimum) / parameters.scale;
    // NaN becomes the lowest code.
    return static_cast<std::uint8_t>(
        std::nearbyint(steps > 0 ? std::min(steps, last_code_) : 0.0f));
  }

  float decode(std::uint8_t code, const GroupParameters& parameters) const override {
    return parameters.scale * static_cast<float>(code) + parameters.minimum;
  }

  void decode_group(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
                    std::span<float> values) const override {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      values[i] = decode(codes[i], parameters);
    }
  }

  float stored_scale(double scale) const override { return fitted_scale(scheme(), scale); }

  float stored_minimum(double minimum) const override {
    const double low = std::min(minimum, 0.0);
    return low == 0 ? 0.0f : fitted_scale(scheme(), low);
  }

 private:
  float last_code_;
};

}  // namespace

std::unique_ptr<const Format> make_minima_format(const Scheme& scheme) {
  return std::make_unique<MinimaFormat>(scheme);
}

}  // namespace nibble::formats
