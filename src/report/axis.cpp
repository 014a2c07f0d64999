#include "report/axis.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace nibble::report {
namespace {

constexpr int kMostTicks = 20;
constexpr int kDigits = 6;        // of a label, more where neighbours need them
constexpr int kMostDigits = 17;   // which tell all doubles apart
constexpr double kMargin = 0.06;  // of the range, at both ends

// The smallest of 1, 2, 5, 10 times a power of ten that is not below `step`.
double round_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) {
      return factor * power;
    }
  }
  return 10 * power;
}

// As many digits as tell multiples of `step` up to `largest` apart.
int digits_of(double step, double largest) {
  const double digits = std::floor(std::log10(largest)) - std::floor(std::log10(step)) + 1;
  return static_cast<int>(std::clamp<double>(digits, kDigits, kMostDigits));
}

std::vector<Tick> linear_ticks(double low, double high) {
  const double step = round_step((high - low) / 6);
  const double first = std::ceil(low / step);
  const int digits = digits_of(step, std::max(std::abs(low), std::abs(high)));
  std::vector<Tick> ticks;
  for (int n = 0; n < kMostTicks && (first + n) * step <= high; ++n) {
    const double multiple = first + n;
    const double value = multiple == 0 ? 0 : multiple * step;  // never -0
    ticks.push_back({value, fmt::format("{:.{}g}", value, digits)});
  }
  return ticks;
}

std::vector<Tick> logarithmic_ticks(double low, double high) {
  const double decades = std::log10(high) - std::log10(low);
  if (decades < 0.5) {
    return linear_ticks(low, high);
  }
  const std::vector<double> factors =
      decades <= 1 ? std::vector<double>{1, 2, 3, 4, 6, 8}
                   : (decades <= 2 ? std::vector<double>{1, 2, 5} : std::vector<double>{1});
  const double stride = std::max(1.0, std::ceil(decades / kMostTicks));
  std::vector<Tick> ticks;
  for (double power = std::floor(std::log10(low)); power <= std::log10(high); power += stride) {
    for (const double factor : factors) {
      const double value = factor * std::pow(10.0, power);
      if (value >= low && value <= high) {
        ticks.push_back({value, fmt::format("{:.6g}", value)});
      }
    }
  }
  return ticks;
}

}  // namespace

Axis::Axis(Scaling scaling, double low, double high, double low_pixel, double high_pixel)
    : scaling_(scaling), low_(low), high_(high), low_pixel_(low_pixel), high_pixel_(high_pixel) {
  core::require(std::isfinite(low) && std::isfinite(high) && low <= high, core::ErrorKind::kFailed,
                "an axis from {} to {}", low, high);
  if (scaling == Scaling::kLogarithmic) {
    core::require(low > 0, core::ErrorKind::kFailed, "a logarithmic axis from {}", low);
    const double widen = low == high ? 2.0 : std::pow(high / low, kMargin);
    low_ /= widen;
    high_ *= widen;
    return;
  }
  const double widen = low == high ? std::max(1e-12, 0.5 * std::abs(low)) : kMargin * (high - low);
  low_ -= widen;
  high_ += widen;
}

double Axis::at(double value) const {
  const double share = scaling_ == Scaling::kLogarithmic
                           ? std::log(value / low_) / std::log(high_ / low_)
                           : (value - low_) / (high_ - low_);
  return low_pixel_ + share * (high_pixel_ - low_pixel_);
}

std::vector<Tick> Axis::ticks() const {
  return scaling_ == Scaling::kLogarithmic ? logarithmic_ticks(low_, high_)
                                           : linear_ticks(low_, high_);
}

}  // namespace nibble::report
