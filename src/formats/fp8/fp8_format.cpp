#include "formats/fp8/fp8_format.h"

#include <algorithm>
#include <cmath>

#include "core/float16.h"
#include "core/float8.h"
#include "formats/finite.h"
#include "formats/fp16_scale.h"
#include "formats/nv/e4m3.h"

namespace nibble::formats {
namespace {

constexpr float kHalfAStepBeyond = 464.0f;

class Fp8Format final : public Format {
 public:
  explicit Fp8Format(const Scheme& scheme) : Format(scheme) {}

  GroupParameters fit(std::span<const float> group) const override {
    require_finite(group);
    float largest = 0;
    for (const float weight : group) {
      largest = std::max(largest, std::abs(weight));
    }
    const float nearest = round_scale(static_cast<double>(largest) / kE4m3Max);
    return {largest > kHalfAStepBeyond * nearest ? next_larger(nearest) : nearest, 0};
  }

  std::uint8_t encode(float weight, const GroupParameters& parameters) const override {
    const float quotient = weight / parameters.scale;
    return std::isnan(quotient) ? 0 : core::to_e4m3(quotient).bits;
  }

  float decode(std::uint8_t code, const GroupParameters& parameters) const override {
    return parameters.scale * core::to_float(core::E4m3{code});
  }

  void decode_group(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
                    std::span<float> values) const override {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      values[i] = decode(codes[i], parameters);
    }
  }

  float stored_scale(double scale) const override { return round_scale(scale); }

 private:
  // Of a positive fp16 value. The largest stays: what is beyond becomes the last code.
  static float next_larger(float scale) {
    core::Fp16 half = core::to_fp16(scale);
    half.bits = static_cast<std::uint16_t>(half.bits + (scale < core::kFp16Max ? 1 : 0));
    return core::to_float(half);
  }
};

}  // namespace

std::unique_ptr<const Format> make_fp8_format(const Scheme& scheme) {
  return std::make_unique<Fp8Format>(scheme);
}

}  // namespace nibble::formats
