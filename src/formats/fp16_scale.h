#pragma once

#include <algorithm>
#include <cmath>

#include "core/float16.h"
#include "formats/scheme.h"

namespace nibble::formats {

/// The fp16 value nearest to `scale` (ties to even), never zero and never infinite: magnitudes
/// outside [2^-24, 65504] become the end they lie beyond. Zero counts as positive, so that a group
/// of zeros gets the smallest scale, with which every code near zero is as good as zero.
inline float round_scale(double scale) {
  constexpr double kSmallest = 0x1p-24;  // the last subnormal
  constexpr int kMinExponent = -14;
  constexpr int kMantissaBits = 10;
  const double magnitude = std::clamp(std::abs(scale), kSmallest, double{core::kFp16Max});
  // In float64 from the start: rounding to float32 first would round twice.
  const int exponent = std::max(std::ilogb(magnitude), kMinExponent);
  const double step = std::ldexp(1.0, exponent - kMantissaBits);
  const auto rounded = static_cast<float>(std::nearbyint(magnitude / step) * step);
  return scale < 0 ? -rounded : rounded;
}

/// A scale that was fitted to its weights, in its stored type. One that will be a multiple of a
/// float16 stays as it is until round_to_supers() knows that.
inline float fitted_scale(const Scheme& scheme, double scale) {
  return has_supers(scheme) ? static_cast<float>(scale) : round_scale(scale);
}

}  // namespace nibble::formats
