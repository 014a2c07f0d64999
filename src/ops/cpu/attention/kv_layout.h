#pragma once

#include <cstdint>

/// Where integer codes lie in a page of 16 tokens: in lines of 64 bytes, four numbers (a quad) of
/// 16 lanes side by side, as dot products of bytes take them. Products with keys add up elements,
/// so lanes are tokens and quads elements; products with values add up tokens, so lanes are
/// elements and quads tokens. Lines of 4-bit codes hold two quads, the first in the low nibbles.
///
///   keys, line d / 4       byte   0  1  2  3 | 4  5  6  7 | ...
///                         token   0            1            ... 15
///                       element   d .. d + 3   d .. d + 3
///
///   values, 8 bits: lines 4 (d / 16) + t / 4 (4 bits: 2 (d / 16) + t / 8)
///                       element   d            d + 1        ... d + 15
///                         token   t .. t + 3   t .. t + 3
///
/// Elements that a head lacks in its last line are codes 0.
///
/// Keys in FP8 stand side by side too, byte 16 d + t, for products of floats of as many elements as
/// fill multiples of 16. Values in FP8, and all other floats, are vectors.
namespace nibble::ops::cpu {

inline constexpr std::int64_t kCodeLine = 64;   // bytes
inline constexpr std::int64_t kCodeLanes = 16;  // of a line
inline constexpr std::int64_t kCodeQuad = 4;    // codes of a lane that are multiplied at once

/// Where a code lies: bits [shift, shift + width of the type) of a byte.
struct CodePlace {
  std::int64_t byte;
  int shift;
};

constexpr std::int64_t rounded_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

/// Quads of a key of head_dim elements, whole lines of them.
constexpr std::int64_t key_quads(int bits, std::int64_t head_dim) {
  return rounded_up(head_dim, kCodeQuad * 8 / bits) / kCodeQuad;
}
constexpr std::int64_t key_code_bytes(int bits, std::int64_t head_dim) {
  return key_quads(bits, head_dim) * kCodeLine * bits / 8;
}
constexpr std::int64_t value_code_bytes(int bits, std::int64_t head_dim) {
  return rounded_up(head_dim, kCodeLanes) * 16 * bits / 8;
}

constexpr std::int64_t fp8_key_bytes(std::int64_t head_dim) {
  return rounded_up(head_dim, kCodeLanes) * kCodeLanes;
}
constexpr std::int64_t fp8_key_place(std::int64_t slot, std::int64_t d) {
  return d * kCodeLanes + slot;
}

/// Element d of the token at `slot` of a page.
constexpr CodePlace key_code_place(int bits, std::int64_t slot, std::int64_t d) {
  const std::int64_t quad = d / kCodeQuad;
  const std::int64_t quads = 8 / bits;  // of a line
  return {quad / quads * kCodeLine + slot * kCodeQuad + d % kCodeQuad,
          static_cast<int>(quad % quads) * bits};
}
constexpr CodePlace value_code_place(int bits, std::int64_t slot, std::int64_t d) {
  const std::int64_t quad = d / kCodeLanes * 4 + slot / kCodeQuad;
  const std::int64_t quads = 8 / bits;
  return {quad / quads * kCodeLine + d % kCodeLanes * kCodeQuad + slot % kCodeQuad,
          static_cast<int>(quad % quads) * bits};
}

constexpr int code_at(const std::uint8_t* codes, CodePlace place, int bits) {
  return codes[place.byte] >> place.shift & ((1 << bits) - 1);
}

}  // namespace nibble::ops::cpu
