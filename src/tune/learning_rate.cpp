#include "tune/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace nibble::tune {

Decay parse_decay(std::string_view word) {
  if (word == "constant") {
    return Decay::kConstant;
  }
  if (word == "linear") {
    return Decay::kLinear;
  }
  core::require(word == "cosine", core::ErrorKind::kUsage,
                "'{}' is no schedule; schedules are constant, linear, cosine",
                core::printable(word));
  return Decay::kCosine;
}

double LearningRate::at(std::int64_t step) const {
  if (step < warmup) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  const auto left = static_cast<double>(std::max<std::int64_t>(steps - warmup, 1));
  const double done = std::min(1.0, static_cast<double>(step - warmup) / left);
  switch (decay) {
    case Decay::kConstant:
      return peak;
    case Decay::kLinear:
      return peak * (last + (1.0 - last) * (1.0 - done));
    case Decay::kCosine:
      return peak * (last + (1.0 - last) * 0.5 * (1.0 + std::cos(std::numbers::pi * done)));
  }
  return peak;
}

}  // namespace nibble::tune
