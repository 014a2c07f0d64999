#include "formats/nv/nv_format.h"

#include <algorithm>
#include <cmath>

#include "formats/e2m1_format.h"
#include "formats/finite.h"
#include "formats/nv/e4m3.h"

namespace nibble::formats {
namespace {

constexpr float kLargestCode = 6.0f;
constexpr float kSecondCode = 4.0f;

class NvFormat final : public E2m1Format {
 public:
  NvFormat(const Scheme& scheme, float global, NvRule rule)
      : E2m1Format(scheme), global_(global), rule_(rule) {}

  GroupParameters fit(std::span<const float> group) const override {
    require_finite(group);
    const double largest = largest_magnitude(group);
    const float six = stored_scale(largest / kLargestCode);
    if (rule_ == NvRule::kPlain) {
      return {six, 0};
    }
    const float four = stored_scale(largest / kSecondCode);
    return {squared_error(group, four) < squared_error(group, six) ? four : six, 0};
  }

  float stored_scale(double scale) const override {
    const std::uint8_t byte = nearest_e4m3(std::abs(scale) / static_cast<double>(global_));
    return e4m3_to_float(std::max(byte, std::uint8_t{1})) * global_;
  }

 private:
  static double squared_error(std::span<const float> group, float scale) {
    double sum = 0;
    for (const float weight : group) {
      const double error = static_cast<double>(weight) - scale * kE2m1[nearest_e2m1(weight, scale)];
      sum += error * error;
    }
    return sum;
  }

  float global_;
  NvRule rule_;
};

}  // namespace

float nv_global(std::span<const float> matrix, NvRule rule) {
  require_finite(matrix);
  constexpr double kWithRoomForAHalf = 256;
  const double largest_scale =
      rule == NvRule::kPlain ? static_cast<double>(kE4m3Max) : kWithRoomForAHalf;
  const auto global =
      static_cast<float>(largest_magnitude(matrix) / (kLargestCode * largest_scale));
  return std::clamp(global, kMinNvGlobal, kMaxNvGlobal);
}

std::unique_ptr<const Format> make_nv_format(const Scheme& scheme, float global, NvRule rule) {
  return std::make_unique<NvFormat>(scheme, global, rule);
}

}  // namespace nibble::formats
