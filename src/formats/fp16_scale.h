#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/float16.h"
#include "formats/scheme.h"

namespace nibble::formats {

/// The fp16 value nearest to `scale` (ties to even), never zero and never infinite: magnitudes
/// outside [2^-24, 65504] become the end they lie beyond. Zero counts as positive, so that a group
/// of zeros gets the smallest scale, with which every code near zero is as good as zero.
inline float round_scale(double scale) {
  constexpr double kSmallest = 0x1p-24;                 // the last subnormal
  constexpr std::uint64_t kSmallestNormal = 1023 - 14;  // biased exponent
  constexpr int kMantissaBits = 10;
  constexpr int kDoubleBits = 52;
  const double magnitude = std::clamp(std::abs(scale), kSmallest, double{core::kFp16Max});
  const std::uint64_t exponent =
      std::max(std::bit_cast<std::uint64_t>(magnitude) >> kDoubleBits, kSmallestNormal);
  // Adding a number whose last bit is worth as much as that of the fp16 value leaves no more: the
  // sum is rounded to nearest even. In float64: rounding to float32 first would round twice.
  const auto rounder =
      std::bit_cast<double>((exponent + kDoubleBits - kMantissaBits) << kDoubleBits);
  const auto rounded = static_cast<float>((magnitude + rounder) - rounder);
  return scale < 0 ? -rounded : rounded;
}

/// A scale that was fitted to its weights, in its stored type. One that will be a multiple of a
/// float16 stays as it is until round_to_supers() knows that.
inline float fitted_scale(const Scheme& scheme, double scale) {
  return has_supers(scheme) ? static_cast<float>(scale) : round_scale(scale);
}

}  // namespace nibble::formats
