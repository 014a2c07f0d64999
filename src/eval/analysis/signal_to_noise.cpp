#include "eval/analysis/signal_to_noise.h"

#include <cmath>
#include <cstddef>
#include <limits>

namespace nibble::eval {

void SignalToNoise::add(std::span<const float> reference, std::span<const float> values) {
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double signal = reference[i];
    const double noise = signal - static_cast<double>(values[i]);
    signal_ += signal * signal;
    noise_ += noise * noise;
  }
}

double SignalToNoise::decibels() const {
  if (noise_ == 0) {
    return signal_ > 0 ? std::numeric_limits<double>::infinity()
                       : std::numeric_limits<double>::quiet_NaN();
  }
  return 10 * std::log10(signal_ / noise_);
}

}  // namespace nibble::eval
