#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/activation.h"
#include "formats/exchange/exchange.h"

namespace nibble::formats::exchange {

/// A weight on grids of integers, w(n, k) = scale(n, g) * (code(n, k) - zero(n, g)), in which most
/// tools store theirs.
struct IntegerGrid {
  int bits = 4;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t group = 0;  // inputs that share a scale, in stored order; 0: a whole row
  std::vector<std::uint8_t> codes = {};  // [n, k], in the order of the layer's inputs
  std::vector<float> scales = {};        // [n, groups]
  std::vector<std::uint8_t> zeros = {};  // [n, groups]; empty: 2^(bits - 1) everywhere
  std::vector<std::int32_t> order = {};  // [k] stored input i is input order[i]; empty: as they are
  Activation activation = {};
};

/// Groups of a row.
std::int64_t groups_of(std::int64_t k, std::int64_t group);

/// The same numbers as a PackedWeight: symmetric where all zeros are 2^(bits - 1). Scales become
/// float16; codes, zeros and order are kept. Throws kInvalidModel naming the layer for a scale that
/// is not finite in float16.
ReadLayer pack_grid(const IntegerGrid& grid, std::string_view layer);

}  // namespace nibble::formats::exchange
