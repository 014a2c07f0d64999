#pragma once

#include <cstdint>

/// Codes of up to 16 rows put into the lines of a tile (tile_layout.h), four bytes of a row at a
/// time. Row r of the source begins at codes + r * row_bytes; `inputs` counts codes of a row,
/// groups already padded. Bytes of lines that no row or input belongs to stay as they are.
namespace nibble::ops::cpu {

/// From 4-bit codes as they are stored (formats/bit_packing.h) to nibble lines. Bits behind the
/// last code of a row are zero.
void stored_nibbles_to_lines(const std::uint8_t* codes, std::int64_t row_bytes, std::int64_t rows,
                             std::int64_t inputs, std::uint8_t* lines);

/// From codes below 16, a byte each, to nibble lines. `inputs` is a multiple of 8.
void nibbles_to_lines(const std::uint8_t* codes, std::int64_t row_bytes, std::int64_t rows,
                      std::int64_t inputs, std::uint8_t* lines);

/// From 8-bit codes to byte lines.
void bytes_to_lines(const std::uint8_t* codes, std::int64_t row_bytes, std::int64_t rows,
                    std::int64_t inputs, std::uint8_t* lines);

}  // namespace nibble::ops::cpu
