#include "compress/calibration/magnitudes.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace nibble::compress {
namespace {

constexpr int kDropped = 15;  // bits of a float that a bucket does not look at

std::uint32_t bits_of(float magnitude) {
  return std::bit_cast<std::uint32_t>(magnitude);
}

}  // namespace

Magnitudes::Magnitudes() : counts_(std::size_t{1} << 16) {}

void Magnitudes::add(std::span<const float> values) {
  for (const float value : values) {
    const float magnitude = std::fabs(value);
    ++counts_[bits_of(magnitude) >> kDropped];
    largest_ = std::max(largest_, magnitude);
  }
  total_ += std::ssize(values);
}

float Magnitudes::percentile(double percent) const {
  const double wanted = percent / 100 * static_cast<double>(total_);
  std::int64_t reached = 0;
  for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
    reached += counts_[bucket];
    if (reached > 0 && static_cast<double>(reached) >= wanted) {
      if (bucket == 0) {
        return 0.0f;
      }
      const auto low = static_cast<std::uint32_t>(bucket) << kDropped;
      const std::uint32_t high = low | ((1U << kDropped) - 1);
      return std::min(std::bit_cast<float>(high), largest_);
    }
  }
  return largest_;
}

}  // namespace nibble::compress
