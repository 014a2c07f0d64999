#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/cuda/elementwise/int4_tiles.h"

namespace nibble::ops::cuda {

/// One row of kInt4Tiles, `padded` columns, from codes in [-8, 7], byte by byte after the formula
/// of int4_tiles.h. Columns behind the last code have `padding`.
inline std::vector<std::uint8_t> int4_tiles_row(std::span<const int> codes, int padded,
                                                int padding) {
  constexpr int kOrder[4] = {0, 2, 1, 3};
  const auto nibble = [&](int column) {
    const auto at = static_cast<std::size_t>(column);
    return static_cast<unsigned>(at < codes.size() ? codes[at] : padding) & 15;
  };
  std::vector<std::uint8_t> row;
  for (int block = 0; block < padded; block += 32) {
    for (int t = 0; t < 4; ++t) {
      for (int n = 0; n < 4; ++n) {
        const int column = block + 8 * t + kOrder[n];
        row.push_back(static_cast<std::uint8_t>(nibble(column) | nibble(column + 4) << 4));
      }
    }
  }
  return row;
}

}  // namespace nibble::ops::cuda
