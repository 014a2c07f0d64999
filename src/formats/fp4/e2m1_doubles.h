#pragma once

#include <cstdint>

/// E2M1 numbers as arithmetic sees them (kE2m1Numbers): their doubles, integers from -12 to 12.
namespace nibble::formats {

inline constexpr std::int32_t kE2m1Top = 12;
inline constexpr int kE2m1Bits = 5;

}  // namespace nibble::formats
