#pragma once

#include <cstdint>

namespace nibble::ops::cpu {

/// Bits that codes of `bits` bits take in memory.
constexpr int held_bits_of(int bits) {
  return bits <= 4 ? 4 : 8;
}

/// Sets a code or zero point that has byte `whole` of its own, or `half` (0 is the low one) of byte
/// `shared`.
inline void set_held(std::uint8_t* to, int held_bits, std::int64_t whole, std::int64_t shared,
                     std::int64_t half, int value) {
  if (held_bits == 8) {
    to[whole] = static_cast<std::uint8_t>(value);
  } else {
    to[shared] |= static_cast<std::uint8_t>(value << (4 * half));
  }
}

}  // namespace nibble::ops::cpu
