#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/vector_level.h"
#include "formats/scheme.h"

namespace nibble::formats {

/// The 16 values of a book in ascending order, to find the nearest one of a weight. The rank of the
/// nearest value is the number of midpoints between neighbours that are below the weight: exactly
/// between two values the smaller one wins. Of equal values all ranks lead to the first code.
class BookOrder {
 public:
  static constexpr std::size_t kSize = 16;
  using Limits = std::array<float, kSize>;

  explicit BookOrder(std::span<const float, kSize> book);

  std::uint8_t code(std::size_t rank) const { return codes_[rank]; }
  /// Of each rank's code.
  const std::array<float, kSize>& values() const { return values_; }
  /// Between a rank and the next; infinite behind the last.
  const std::array<double, kSize>& midpoints() const { return midpoints_; }

  /// The largest float32 weight of each rank, at a positive scale: a weight is above it exactly
  /// when its quotient by the scale is above the midpoint. The product of a midpoint and an fp16
  /// scale is exact in float64.
  NIBBLE_INLINE void limits(float scale, Limits& limits) const {
    for (std::size_t i = 0; i < kSize; ++i) {
      const double limit = midpoints_[i] * scale;
      const auto nearest = static_cast<float>(limit);
      const auto bits = std::bit_cast<std::int32_t>(nearest);
      // The float32 number below it, which 0 and the smallest ones don't need in practice but get.
      const std::int32_t below = nearest > 0 ? bits - 1 : (nearest < 0 ? bits + 1 : kBelowZero);
      limits[i] = static_cast<double>(nearest) > limit ? std::bit_cast<float>(below) : nearest;
    }
  }

 private:
  static constexpr std::int32_t kBelowZero = std::bit_cast<std::int32_t>(0x80000001u);

  std::array<float, kSize> values_{};
  std::array<std::uint8_t, kSize> codes_{};
  std::array<double, kSize> midpoints_{};
};

/// Whether a scheme has a book whose codes are those of a BookOrder (E2M1 codes of MXFP4 and NVFP4
/// have ties of their own).
bool rounds_by_book_order(const Scheme& scheme);

}  // namespace nibble::formats
