#pragma once

#include <cstdint>
#include <span>

namespace nibble::formats {

/// Codes of 2, 3, 4 or 8 bits stored LSB first: code i of a row occupies bits [i * bits, (i + 1) *
/// bits) of the row, bit 0 being the lowest bit of byte 0. With 3 bits:
///
///   byte        2                1                0
///   bits  [7 6 5 4 3 2 1 0][7 6 5 4 3 2 1 0][7 6 5 4 3 2 1 0]
///   code   7 7 7 6 6 6 5 5  5 4 4 4 3 3 3 2  2 2 1 1 1 0 0 0
///
/// A row begins at a byte; the bits left over in its last byte are zero.

constexpr std::int64_t packed_bytes(std::int64_t codes, int bits) {
  return codes / 8 * bits + (codes % 8 * bits + 7) / 8;
}

/// Packs codes (each < 2^bits) into bytes of size packed_bytes(codes.size(), bits).
void pack(std::span<const std::uint8_t> codes, int bits, std::span<std::uint8_t> bytes);

/// Unpacks the first codes.size() codes of `bytes`.
void unpack(std::span<const std::uint8_t> bytes, int bits, std::span<std::uint8_t> codes);

/// Code `index` of the bytes at `bytes` alone; this and set_code() take any number of bits up to 8.
constexpr std::uint8_t get_code(const std::uint8_t* bytes, int bits, std::int64_t index) {
  const std::int64_t byte = index / 8 * bits + index % 8 * bits / 8;
  const int shift = static_cast<int>(index % 8 * bits % 8);
  unsigned word = bytes[byte];
  if (shift + bits > 8) {  // the code goes on in the next byte
    word |= unsigned{bytes[byte + 1]} << 8;
  }
  return static_cast<std::uint8_t>((word >> shift) & ((1u << bits) - 1));
}
constexpr std::uint8_t get_code(std::span<const std::uint8_t> bytes, int bits, std::int64_t index) {
  return get_code(bytes.data(), bits, index);
}

/// Writes code `index` alone and leaves all other bits.
void set_code(std::span<std::uint8_t> bytes, int bits, std::int64_t index, std::uint8_t code);

}  // namespace nibble::formats
