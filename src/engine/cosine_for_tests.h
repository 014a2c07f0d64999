#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace nibble::engine {

/// Of the angle between two rows of numbers.
inline double cosine(std::span<const float> a, std::span<const float> b) {
  double products = 0;
  double squares_a = 0;
  double squares_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    products += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    squares_a += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    squares_b += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return products / std::sqrt(squares_a * squares_b);
}

}  // namespace nibble::engine
