#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/exchange/integer_grid.h"

namespace nibble::formats::exchange {

/// A weight whose groups have a real offset: w(n, k) = scale(n, g) * code(n, k) + bias(n, g).
struct AffineGroups {
  int bits = 4;  // of codes, 2 to 8
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t group = 0;                // divides k
  std::vector<std::uint8_t> codes = {};  // [n, k]
  std::vector<float> scales = {};        // [n, k / group]
  std::vector<float> biases = {};        // [n, k / group]
};

/// The grid that comes nearest, and what that changes.
struct NearestGrid {
  IntegerGrid grid;
  double error = 0;  // Frobenius norm of the change relative to that of the weights
};

/// Codes of `bits` (those of `affine`, or 8, of which they are multiples then), scales that float16
/// holds, and the zero points next to the biases. Throws kInvalidModel naming the layer for numbers
/// that are not finite in float16.
NearestGrid nearest_grid(const AffineGroups& affine, int bits, std::string_view layer);

/// The same numbers with minima, in codes of `bits`, not fewer than those of `affine`. Scales and
/// biases become float16. Throws kInvalidModel naming the layer where one is not finite then.
ReadLayer pack_minima(const AffineGroups& affine, int bits, std::string_view layer);

}  // namespace nibble::formats::exchange
