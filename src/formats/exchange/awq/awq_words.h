#pragma once

#include <array>
#include <cstdint>

namespace nibble::formats::exchange {

/// How AWQ's words hold the nibbles of eight outputs (awq.h).
inline constexpr int kAwqBits = 4;
inline constexpr std::int64_t kAwqPerWord = 8;
/// The nibble of output 8 c + i in word c.
inline constexpr std::array<int, 8> kAwqNibbleOf = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace nibble::formats::exchange
