#pragma once

#include <cstdint>

/// Codes of up to 16 rows put into the lines of a tile (tile_layout.h), four bytes of a row at a
/// time. Row r of the source begins at codes + r * row_bytes; `inputs` counts codes of a row,
/// groups already padded. Codes have 2, 3, 4 or 8 bits. Bytes of lines that no row or input belongs
/// to stay as they are.
namespace nibble::ops::cpu {

/// From codes as they are stored (formats/bit_packing.h). Bits behind the last code of a row are
/// zero.
void stored_to_lines(int bits, const std::uint8_t* codes, std::int64_t row_bytes, std::int64_t rows,
                     std::int64_t inputs, std::uint8_t* lines);

/// From codes below 2^bits, a byte each. `inputs` is a multiple of 16, with 3 bits of 32.
void bytes_to_lines(int bits, const std::uint8_t* codes, std::int64_t row_bytes, std::int64_t rows,
                    std::int64_t inputs, std::uint8_t* lines);

}  // namespace nibble::ops::cpu
