#include "eval/metrics/growing_histogram.h"

#include <cmath>

namespace nibble::eval {

void GrowingHistogram::add(float value) {
  if (!std::isfinite(value)) {
    ++not_finite_;
    return;
  }
  const double number = value;
  if (reach_ == 0 && number != 0) {
    reach_ = std::exp2(std::floor(std::log2(std::abs(number))) + 1);
  }
  while (number < -reach_ || (number >= reach_ && number != 0)) {
    grow();
  }
  // The factor is a power of two, so the product is exact. 0 lies in the upper half, whatever the
  // reach.
  const double from_zero = reach_ == 0 ? 0.0 : std::floor(number * (0.5 * kColumns / reach_));
  ++counts_[static_cast<std::size_t>(static_cast<std::int64_t>(from_zero) + kColumns / 2)];
}

void GrowingHistogram::grow() {
  std::vector<std::int64_t> wider(kColumns);
  for (std::int64_t i = 0; i < kColumns; ++i) {
    wider[static_cast<std::size_t>(i / 2 + kColumns / 4)] += counts_[static_cast<std::size_t>(i)];
  }
  counts_ = std::move(wider);
  reach_ *= 2;
}

}  // namespace nibble::eval
