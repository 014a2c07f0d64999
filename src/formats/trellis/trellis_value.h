#pragma once

#include <cstdint>

#include "formats/trellis/trellis_book.h"

/// What the states of trellis codes (trellis_code.h) stand for. Devices include it too.
namespace nibble::formats {

inline constexpr int kTrellisStateBits = 16;
inline constexpr std::uint32_t kTrellisMultiplier = 47485;

/// The value of a state, in units of the scale.
constexpr std::int8_t trellis_value(std::uint16_t state) {
  return kTrellisBook[static_cast<std::uint16_t>(state * kTrellisMultiplier) >> 8];
}

}  // namespace nibble::formats
