#pragma once

#include <algorithm>
#include <cmath>

#include "core/float16.h"

namespace nibble::formats {

inline constexpr double kSmallestFp16 = 0x1p-24;

/// The fp16 scale nearest to `scale`, never zero and never infinite: magnitudes outside
/// [2^-24, 65504] become the end they lie beyond. Zero counts as positive, so that a group of zeros
/// gets the smallest scale, with which every code near zero is as good as zero.
inline float round_scale(double scale) {
  const double magnitude =
      std::clamp(std::abs(scale), kSmallestFp16, static_cast<double>(core::kFp16Max));
  // A double that is rounded to float first may land on a tie of fp16 that it was not; all that
  // moves is the choice between two scales that are equally near to within 2^-24.
  const float rounded = core::to_float(core::to_fp16(static_cast<float>(magnitude)));
  return scale < 0 ? -rounded : rounded;
}

}  // namespace nibble::formats
