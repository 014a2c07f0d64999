#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace nibble::formats {

/// Midpoints between neighbouring E2M1 magnitudes. Magnitude i holds values up to kE2m1UpTo[i]; the
/// midpoint itself belongs to it when i is even.
inline constexpr std::array<float, 7> kE2m1UpTo = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};

/// The E2M1 code (sign << 3 | magnitude, kE2m1 in codebooks.h) nearest to `weight` / `scale`, ties
/// to the even code; beyond 6 it saturates. A negative weight that rounds to zero keeps its sign
/// (code 8). The product of a midpoint and a float32 scale is exact in float64, so nothing but this
/// rounds. `scale`: not negative.
inline std::uint8_t nearest_e2m1(float weight, float scale) {
  const double magnitude = std::abs(static_cast<double>(weight));
  int rank = 0;
  for (std::size_t i = 0; i < kE2m1UpTo.size(); ++i) {
    const double midpoint = static_cast<double>(kE2m1UpTo[i]) * static_cast<double>(scale);
    const bool above = i % 2 == 0 ? magnitude > midpoint : magnitude >= midpoint;
    rank += above ? 1 : 0;
  }
  return static_cast<std::uint8_t>((std::signbit(weight) ? 8 : 0) | rank);
}

}  // namespace nibble::formats
